-- cancel: removes jobs that are not wanted any more.

if command == 'cancel' then
  -- Refuses to cancel a job that others wait for, unless they are canceled with it.
  local function need_dependents(jids)
    local mentioned = {}
    for _, jid in ipairs(jids) do mentioned[jid] = true end
    for _, jid in ipairs(jids) do
      for _, other in ipairs(try('SMEMBERS', 'ql:j:' .. jid .. '-dependents')) do
        if not mentioned[other] then
          error('Cancel(): ' .. jid .. ' is a dependency of ' .. other .. ' but is not mentioned to be canceled')
        end
      end
    end
  end

  -- The failed jobs that leave their groups, by group.
  local leaving, few = {}, 20

  local function leave_group(jid, group)
    leaving[group] = leaving[group] or {}
    table.insert(leaving[group], jid)
  end

  -- A few jobs are removed from the list one by one. For many, the whole list is read once: each job that stays is
  -- appended to its end, and in the end they are in the old order.
  local function leave_groups()
    for group, jids in pairs(leaving) do
      local key, left, gone = 'ql:f:' .. group, 0, {}
      if #jids > few then left = call('LLEN', key) end
      for _, jid in ipairs(jids) do
        gone[jid] = true
        if #jids <= few then remove_failure(jid, group) end
      end
      while left > 0 do
        local some, kept = call('LPOP', key, math.min(left, 1000)), {}
        for _, jid in ipairs(some) do
          if not gone[jid] then kept[#kept + 1] = jid end
        end
        call_many('RPUSH', key, kept)
        left = left - #some
      end
      if call('EXISTS', key) == 0 then call('SREM', 'ql:failures', group) end
    end
  end

  -- Removes a job that is not complete, whatever its state; its worker gets a message.
  local function cancel_job(jid)
    local found = try('HMGET', 'ql:j:' .. jid, 'state', 'queue', 'worker', 'failure', 'tags')
    local state, queue, worker, failure, tags = unpack(found)
    -- If another program has stored something else under the key, it is no job.
    if state == 'complete' or found.err then return end
    local text = '{"jid":' .. encode(jid) .. ',"queue":' .. encode(queue) .. ',"event":"canceled","worker":'
      .. encode(worker) .. '}'
    tell(text)
    if worker and worker ~= '' then
      call('PUBLISH', 'ql:w:' .. worker, text)
      forget_worker_job(worker, jid)
    end
    if state then news('canceled', jid, queue, 'canceled') end
    tell_followers('canceled', jid)
    if queue then leave(jid, queue) end
    for _, other in ipairs(try('SMEMBERS', 'ql:j:' .. jid .. '-dependencies')) do
      try('SREM', 'ql:j:' .. other .. '-dependents', jid)
    end
    local group = state == 'failed' and forget_failure(queue, failure)
    if group then leave_group(jid, group) end
    forget(jid, tags)
  end

  local jids = args_from(3)
  need_dependents(jids)
  for _, jid in ipairs(jids) do cancel_job(jid) end
  leave_groups()
  return jids
end
