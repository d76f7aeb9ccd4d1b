-- The supervisors that share this Redis: each tells of itself, and who looks is told of all.

-- Other clients take jobs from a supervisor and do not know of its list: what it does not hold any more is taken out,
-- of so many that are looked at.
local function tidy_held(instance, most)
  local key = 'ql:taskvisor:held:' .. instance
  for _, jid in ipairs(call('SRANDMEMBER', key, most)) do
    local job = read(jid, {'state', 'queue', 'worker', 'held_by', 'hold', 'instance'})
    if not is_held(job) or job.instance ~= instance then call('SREM', key, jid) end
  end
end

-- Other clients remove jobs and do not know of the list of all: the places of those that are gone are removed, of so
-- many that are looked at, from where the call before it has ended.
local function tidy_places(most)
  local at = number(call('GET', 'ql:taskvisor:tidied') or 0) or 0
  local some = call('ZRANGEBYSCORE', 'ql:taskvisor:jobs', '(' .. at, '+inf', 'WITHSCORES', 'LIMIT', 0, most)
  for i = 1, #some, 2 do
    if call('EXISTS', 'ql:j:' .. some[i]) == 0 then call('ZREM', 'ql:taskvisor:jobs', some[i]) end
  end
  call('SET', 'ql:taskvisor:tidied', #some < 2 * most and 0 or some[#some])
end

-- A sign of life, which its own ears hear. What has been silent for too long is forgotten, some at a time.
if command == 'taskvisor.sign' then
  local channel, instance, text = take(), take(), take()
  call('PUBLISH', channel, '')
  if instance == '' then return 0 end
  write_though_full()
  call('HSET', 'ql:taskvisor:fleet', instance, text)
  call('ZADD', 'ql:taskvisor:seen', now, instance)
  tidy_held(instance, 100)
  tidy_places(500)
  local long_ago = clock - option('max-worker-age', 86400)
  for _, gone in ipairs(call('ZRANGEBYSCORE', 'ql:taskvisor:seen', '-inf', long_ago, 'LIMIT', 0, 10)) do
    call('HDEL', 'ql:taskvisor:fleet', gone)
    call('ZREM', 'ql:taskvisor:seen', gone)
  end
  for _, worker in ipairs(call('ZRANGEBYSCORE', 'ql:workers', '-inf', long_ago, 'LIMIT', 0, 100)) do
    call('DEL', 'ql:w:' .. worker .. ':jobs')
    call('ZREM', 'ql:workers', worker)
  end
  return 1
end

-- A supervisor stops in order.
if command == 'taskvisor.leave' then
  local instance = take()
  call('HDEL', 'ql:taskvisor:fleet', instance)
  call('ZREM', 'ql:taskvisor:seen', instance)
  return 1
end

-- Of each: when it was seen, what it told, how many jobs it holds, and so many of these.
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
