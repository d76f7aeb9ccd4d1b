-- Requests of people about jobs and queues.

local ENDED = {complete = true, failed = true, held = true, canceled = true}

if command == 'taskvisor.get' then
  local jid, names = take(), take_list()
  local values = call('HMGET', 'ql:j:' .. jid, unpack(names))
  if call('EXISTS', 'ql:j:' .. jid) == 0 then return no('job', jid) end
  local needs = {}
  for _, need in ipairs(call('SMEMBERS', 'ql:j:' .. jid .. '-dependencies')) do
    local job = read(need, LOOKED_AT)
    if job.state then needs[#needs + 1] = {need, state_of(job), job.order or '0'} end
  end
  local others = dependents(jid)
  for i = #others, 1001, -1 do others[i] = nil end
  return {
    values, call('ZSCORE', 'ql:tracked', jid) and 1 or 0, needs, others,
    call('LRANGE', 'ql:j:' .. jid .. '-history', 0, -1),
  }
end

-- The counts of some queues, as far as they are there.
if command == 'taskvisor.queues' then
  local function counts(queue)
    local key = 'ql:q:' .. queue
    local canceling = 0
    for _, jid in ipairs(call('ZRANGE', key .. '-locks', 0, 999)) do
      if fields(jid, 'canceling') then canceling = canceling + 1 end
    end
    -- The oldest job of the highest priority. If there is only one priority, it is the oldest waiting job of all.
    local oldest = call('ZREVRANGE', key .. '-work', 0, 0)[1]
    oldest = oldest and fields(oldest, 'put_at') or false
    return {
      queue, call('ZCARD', key .. '-work') + call('ZCARD', key .. '-throttled'), call('ZCARD', key .. '-scheduled'),
      call('ZCARD', key .. '-depends'),
      call('ZCARD', key .. '-locks') - canceling, canceling, oldest,
      call('SISMEMBER', 'ql:paused_queues', queue), call('HGET', 'ql:taskvisor:paused', queue),
      format('%.0f', option(queue .. '-max-concurrency', option('max-concurrency', 0))),
      {
        call('HMGET', figures('wait', queue, clock), 'total', 'mean'),
        call('HMGET', figures('run', queue, clock), 'total', 'mean'),
        call('HMGET', figures('stats', queue, clock), 'retries', 'failures', 'failed'),
      },
    }
  end
  local answers = {}
  for _, queue in ipairs(args_from(3)) do
    if call('ZSCORE', 'ql:queues', queue) then answers[#answers + 1] = counts(queue) end
  end
  return answers
end

if command == 'taskvisor.pause' then
  local queue, line, by, reason = take(), nil, take(), take()
  know_queue(queue)
  call('SADD', 'ql:paused_queues', queue)
  local before = call('HGET', 'ql:taskvisor:paused', queue)
  local since = before and (json_table(before) or {}).since or millis
  line = '{"since":' .. format('%.0f', since) .. ',"by":' .. encode(by) .. ',"reason":'
    .. (reason ~= '' and encode(reason) or 'null') .. '}'
  call('HSET', 'ql:taskvisor:paused', queue, line)
  return 1
end

if command == 'taskvisor.resume' then
  local queue = take()
  if not call('ZSCORE', 'ql:queues', queue) then return no('queue', queue) end
  call('SREM', 'ql:paused_queues', queue)
  call('HDEL', 'ql:taskvisor:paused', queue)
  wake(queue)
  return 1
end

if command == 'taskvisor.state' then
  local jid = take()
  local job = read(jid, LOOKED_AT)
  return job.state and state_of(job) or no('job', jid)
end

-- Asked before several jobs are canceled: the state of each, and which jobs wait for it.
if command == 'taskvisor.looked_at' then
  local answers = {}
  for i = 1, tonumber(take()) do
    local jid = take()
    local job = read(jid, LOOKED_AT)
    answers[i] = {job.state and state_of(job) or false, dependents(jid)}
  end
  return answers
end

-- Cancels jobs, unless other jobs have come to depend on them meanwhile: then the caller must look again.
if command == 'taskvisor.cancel' then
  local by, reason, jids, named, answers = take(), take(), take_list(), {}, {}
  if reason == '' then reason = nil end
  for _, jid in ipairs(jids) do named[jid] = true end
  for _, jid in ipairs(jids) do
    for _, other in ipairs(dependents(jid)) do
      if not named[other] then return no('again') end
    end
  end
  for _, jid in ipairs(jids) do
    local job = read(jid, HELD)
    local queue = job.queue or ''
    need_lists(queue, '-work', '-locks', '-scheduled', '-depends', '-throttled')
    need_throttles(job.throttles)
    need_end(queue)
    if job.state == 'failed' then need_kind('list', 'ql:f:held') end
  end
  for i, jid in ipairs(jids) do
    local key, job = 'ql:j:' .. jid, read(jid, HELD)
    job.held = fields(jid, 'held') or nil
    job.queue = job.queue or ''
    local state = state_of(job)
    if not state or ENDED[state] and state ~= 'held' or state == 'canceling' then
      answers[i] = state or false
    else
      note(jid, by)
      local text = '{"jid":' .. encode(jid) .. ',"queue":' .. encode(job.queue) .. ',"event":"canceled","worker":'
        .. encode(job.worker or '') .. '}'
      tell(text)
      tell_followers('canceled', jid)
      if is_held(job) then
        call('HSET', key, 'canceling', '1')
        call('PUBLISH', 'ql:w:' .. job.worker, text)
        news('canceling', jid, job.queue, 'canceling', reason)
        answers[i] = 'canceling'
      else
        local holder = job.worker and job.worker ~= '' and job.worker
        if holder then
          call('PUBLISH', 'ql:w:' .. holder, text)
          -- Workers in Ruby end a job on this message alone.
          call('PUBLISH', 'ql:w:' .. holder, lock_lost_text(jid, holder))
        end
        leave(jid, job.queue)
        if job.throttles then leave_throttles(jid, job.throttles) end
        forget_worker_job(job.worker, jid)
        if state == 'held' then
          leave_end(jid, read(jid, LOOKED_AT), 'held')
          call('HDEL', key, 'group', 'held')
        end
        call('HDEL', key, 'scheduled')
        end_canceled(jid, job, reason)
        answers[i] = holder and state == 'running' and {'canceled', holder} or 'canceled'
      end
    end
  end
  return answers
end

-- Puts an ended job back to waiting.
local function retry(jid, by)
  local key, job = 'ql:j:' .. jid, read(jid, LOOKED_AT)
  if not job.state then return no('job', jid) end
  local state, queue = state_of(job), queue_of(job)
  if not ENDED[state] then return no('state', jid, state) end
  need_lists(queue, '-work', '-depends')
  need_kind('zset', 'ql:queues')
  need_left_end(job, state)
  if state == 'complete' then
    local held = read(jid, HELD)
    local forensics, ended = fields(jid, 'forensics', 'ended')
    held.hold = held.hold or '0'
    note_attempt(jid, held, 'complete', {forensics = forensics or nil, at = ended or nil})
  end
  leave_end(jid, job, state)
  note(jid, (by:gsub('FROM', state)))
  local retries = fields(jid, 'retries')
  call('HSET', key, 'queue', queue, 'attempt', '0', 'crashes', '0', 'interrupted', '0', 'unknown', '0', 'remaining',
    retries or '0', 'failure', '{}', 'time', now, 'worker', '', 'expires', '0')
  call('HDEL', key, 'ended', 'progress', 'result', 'why', 'group', 'held', 'from', 'due', 'scheduled', 'begin_within')
  history(jid, clock, 'put', '{"q":' .. encode(queue) .. '}')
  know_queue(queue)
  -- It may have been canceled before all jobs that it needs were complete.
  local waits = false
  for _, need in ipairs(call('SMEMBERS', 'ql:j:' .. jid .. '-dependencies')) do
    local of_need = fields(need, 'state')
    if of_need and of_need ~= 'complete' then
      waits = true
    else
      call('SREM', 'ql:j:' .. jid .. '-dependencies', need)
    end
  end
  local becomes = place(jid, queue, job.priority, number(job.order) or clock, 0, waits)
  if becomes == 'waiting' then wake(queue) end
  news('retried', jid, queue, becomes)
  return becomes
end

if command == 'taskvisor.retry' then return retry(take(), take()) end

-- The number of jobs before a waiting one, up to 1000.
if command == 'taskvisor.before' then
  local jid = take()
  local queue = fields(jid, 'queue')
  if not queue then return no('job', jid) end
  return math.min(call('ZREVRANK', 'ql:q:' .. queue .. '-work', jid) or 0, 1000)
end

-- The next jobs whose ids begin this way, and where to go on.
if command == 'taskvisor.find' then
  local prefix, cursor = take(), take()
  local pattern = prefix:gsub('[%*%?%[%]%^\\]', '\\%0') .. '*'
  local answer, ids = call('ZSCAN', 'ql:taskvisor:jobs', cursor, 'MATCH', pattern, 'COUNT', 1000), {}
  for i = 1, #answer[2], 2 do ids[#ids + 1] = answer[2][i] end
  return {answer[1], ids}
end
