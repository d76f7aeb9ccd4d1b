-- The supervisors that share this Redis: each stores its presence, and a query lists all of them.
--
-- All is in a block: Lua allows 200 local names at a time.

do

-- Other clients take jobs from a supervisor without changing its list of held jobs. So this removes entries that it
-- does not hold any more, looking at up to `most`.
local function tidy_held(instance, most)
  local key = 'ql:taskvisor:held:' .. instance
  for _, jid in ipairs(aside('SRANDMEMBER', key, most) or {}) do
    local is_fine, job = pcall(read, jid, {'state', 'queue', 'worker', 'held_by', 'hold', 'instance'})
    if is_fine and (not is_held(job) or job.instance ~= instance) then call('SREM', key, jid) end
  end
end

-- Other clients remove jobs without changing the index of all jobs. So this removes entries of jobs that are gone, and
-- puts jobs right that are in no list of their queue. It looks at up to `most`, from where the last call ended.
local function tidy_places(most)
  local at = number(call('GET', 'ql:taskvisor:tidied') or 0) or 0
  local some = call('ZRANGEBYSCORE', 'ql:taskvisor:jobs', '(' .. at, '+inf', 'WITHSCORES', 'LIMIT', 0, most)
  for i = 1, #some, 2 do
    if call('EXISTS', 'ql:j:' .. some[i]) == 0 then
      call('ZREM', 'ql:taskvisor:jobs', some[i])
    else
      pcall(put_right, some[i])
    end
  end
  if #some == 2 * most then
    call('SET', 'ql:taskvisor:tidied', some[#some])
  elseif at > 0 then
    call('DEL', 'ql:taskvisor:tidied')
  end
end

-- Whether a queue has jobs for a worker now.
local function has_work(queue)
  if call('SISMEMBER', 'ql:paused_queues', queue) == 1 then return false end
  local key = 'ql:q:' .. queue
  return call('ZCARD', key .. '-work') > 0
    or #call('ZRANGEBYSCORE', key .. '-scheduled', '-inf', now, 'LIMIT', 0, 1) > 0
    or #call('ZRANGEBYSCORE', key .. '-recur', 0, now, 'LIMIT', 0, 1) > 0
end

-- Whether workers of other programs have asked for jobs within ten minutes: those whose names contain no supervisor's.
local function has_strangers()
  local ours = {}
  local instances = aside('HKEYS', 'ql:taskvisor:fleet') or {}
  for _, instance in ipairs(instances) do ours[#ours + 1] = '-' .. instance:sub(-8) .. '-' end
  local seen = aside('ZREVRANGEBYSCORE', 'ql:workers', '+inf', clock - 600, 'LIMIT', 0, 100) or {}
  for _, worker in ipairs(seen) do
    local is_ours = false
    for _, part in ipairs(ours) do is_ours = is_ours or worker:find(part, 1, true) ~= nil end
    if not is_ours then return true end
  end
  return false
end

-- Stores a supervisor's presence, and sends a message to its own listener. Supervisors that were silent for too long
-- are removed, some at a time. Gives what it has seen, as bits, a shared key of a wrong type with that type, such keys
-- of indices and figures, and the mark that only these data have.
if command == 'taskvisor.sign' then
  -- Keys of indices and figures that all jobs share.
  local ASIDE = {
    ['ql:tracked'] = 'zset', ['ql:workers'] = 'zset', ['ql:tags'] = 'zset', ['ql:failures'] = 'set',
    ['ql:taskvisor:ended'] = 'hash', ['ql:taskvisor:place'] = 'string', ['ql:taskvisor:failed'] = 'zset',
    ['ql:taskvisor:canceled'] = 'zset', ['ql:taskvisor:releasing'] = 'set', [STRAY] = 'set',
  }

  local function look_aside(key, kind)
    local has = call('TYPE', key).ok
    if has ~= kind and has ~= 'none' then note_odd(key, has) end
  end

  local channel, instance, text = take(), take(), take()
  call('PUBLISH', channel, '')
  if instance == '' then return {0} end
  write_though_full()
  aside('HSET', 'ql:taskvisor:fleet', instance, text)
  aside('ZADD', 'ql:taskvisor:seen', now, instance)
  aside('SET', 'ql:taskvisor:mark', table.concat(call('TIME'), ' '), 'NX')
  local is_busy = false
  tidy_held(instance, 100)
  local spoiled = odd_shared_key() or {}
  if not spoiled[1] then guarded('ql:taskvisor:tidied', nil, tidy_places, 500) end
  for _, queue in ipairs(args_from(6)) do
    local is_fine, has = pcall(has_work, queue)
    is_busy = is_busy or is_fine and has
    for _, kind in ipairs({'wait', 'run', 'stats'}) do look_aside(figures(kind, queue, clock), 'hash') end
  end
  for key, kind in pairs(ASIDE) do look_aside(key, kind) end
  local long_ago = clock - option('max-worker-age', 86400, aside)
  for _, gone in ipairs(aside('ZRANGEBYSCORE', 'ql:taskvisor:seen', '-inf', long_ago, 'LIMIT', 0, 10) or {}) do
    aside('HDEL', 'ql:taskvisor:fleet', gone)
    call('ZREM', 'ql:taskvisor:seen', gone)
  end
  for _, worker in ipairs(aside('ZRANGEBYSCORE', 'ql:workers', '-inf', long_ago, 'LIMIT', 0, 100) or {}) do
    call('DEL', 'ql:w:' .. worker .. ':jobs')
    call('ZREM', 'ql:workers', worker)
  end
  local seen = (is_busy and 1 or 0) + (has_strangers() and 2 or 0)
  return {seen, spoiled[3] or '', spoiled[4] or '', odd, aside('GET', 'ql:taskvisor:mark') or ''}
end

-- Removes a supervisor that stops cleanly.
if command == 'taskvisor.leave' then
  local instance = take()
  call('HDEL', 'ql:taskvisor:fleet', instance)
  call('ZREM', 'ql:taskvisor:seen', instance)
  return 1
end

-- Each supervisor: when it was last seen, what it stored, how many jobs it holds, and the ids of up to `most`.
if command == 'taskvisor.fleet' then
  local most, answers = tonumber(take()), {}
  local long_ago = clock - option('max-worker-age', 86400)
  for _, instance in ipairs(call('ZRANGEBYSCORE', 'ql:taskvisor:seen', '(' .. long_ago, '+inf')) do
    local held, jobs = 'ql:taskvisor:held:' .. instance, {}
    tidy_held(instance, 100)
    for _, jid in ipairs(most > 0 and call('SRANDMEMBER', held, most) or {}) do
      jobs[#jobs + 1] = {jid, fields(jid, 'klass') or '', (fields(jid, 'started'))}
    end
    answers[#answers + 1] = {
      instance, call('ZSCORE', 'ql:taskvisor:seen', instance), call('HGET', 'ql:taskvisor:fleet', instance),
      call('SCARD', held), jobs,
    }
  end
  return {millis, answers}
end

end
