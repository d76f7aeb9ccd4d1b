-- cancel: the end of jobs that nobody wants any more.

local cancel_job
if command == 'cancel' or ours then
  -- Refuses to cancel a job that others wait for, unless they are canceled with it.
  local function need_dependents(jids)
    local mentioned = {}
    for _, jid in ipairs(jids) do mentioned[jid] = true end
    for _, jid in ipairs(jids) do
      for _, other in ipairs(call('SMEMBERS', 'ql:j:' .. jid .. '-dependents')) do
        if not mentioned[other] then
          error('Cancel(): ' .. jid .. ' is a dependency of ' .. other .. ' but is not mentioned to be canceled')
        end
      end
    end
  end

  -- Removes a job that is not complete, whatever it does now; its worker hears of it.
  function cancel_job(jid)
    local state, queue, worker, failure, tags = fields(jid, 'state', 'queue', 'worker', 'failure', 'tags')
    if state == 'complete' then return end
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
    for _, other in ipairs(call('SMEMBERS', 'ql:j:' .. jid .. '-dependencies')) do
      call('SREM', 'ql:j:' .. other .. '-dependents', jid)
    end
    if state == 'failed' then forget_failure(jid, queue, failure) end
    forget(jid, tags)
  end

  if command == 'cancel' then
    local jids = args_from(3)
    need_dependents(jids)
    for _, jid in ipairs(jids) do cancel_job(jid) end
    return jids
  end
end
