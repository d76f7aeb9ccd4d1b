-- Writes the ends of jobs, in the order in which RQ writes them.

-- Whether everything for which a job waits is done, now that `parent` has this status.
local function is_free(id, parent, status)
  local allows = field(id, 'allow_dependency_failures') == '1'
  if status ~= 'finished' and not (status == 'failed' and allows) then return false end
  for _, needed in ipairs(call('SMEMBERS', key('job', '', id, 'dependencies'))) do
    local is = needed ~= parent and call('HGET', job_key(needed), 'status')
    if is and is ~= 'finished' and not (is == 'failed' and allows) then return false end
  end
  return true
end

-- Enqueues the jobs that waited for this one and for no other.
local function free_dependents(id, status)
  local name = key('job', id, 'dependents')
  for _, other in ipairs(call('SMEMBERS', name)) do
    local origin, is = unpack(call('HMGET', job_key(other), 'origin', 'status'))
    local waits = is == 'deferred' or is == 'ready_to_enqueue' or is == 'created'
    if origin and waits and is_free(other, id, status) then
      call('ZREM', key('deferred', origin), other)
      call('ZREM', key('ready', origin), other)
      call('SREM', name, other)
      enqueue(origin, other, field(other, 'enqueue_at_front') == '1')
    end
  end
end

-- Removes a job with all its keys, but not the jobs that wait for it.
local function delete(id)
  local origin, status, group = unpack(call('HMGET', job_key(id), 'origin', 'status', 'group_id'))
  if origin then
    for _, registry in ipairs({ 'finished', 'failed', 'deferred', 'ready', 'scheduled', 'canceled' }) do
      call('ZREM', key(registry, origin), id)
    end
    call('LREM', key('queue', origin), 0, id)
    for _, execution in ipairs(call('ZRANGE', key('executions', id), 0, -1)) do
      forget(origin, id, execution)
    end
  end
  if group and group ~= '' then call('SREM', key('group', group), id) end
  call('DEL', job_key(id), key('job', id, 'dependents'), key('job', '', id, 'dependencies'), key('results', id),
    key('executions', id))
  return status
end

-- Writes an entry into the job's results, which live as long as the job.
local function note_result(id, kind, held, execution, ttl, name, value)
  local entry = { 'type', kind, 'worker_name', held.worker }
  if value and value ~= cjson.null then
    entry[#entry + 1], entry[#entry + 2] = name, value
  end
  local began = execution and call('HGET', key('execution', id .. ':' .. execution), 'created_at')
  if execution then
    entry[#entry + 1], entry[#entry + 2] = 'execution_id', execution
  end
  if began then
    entry[#entry + 1], entry[#entry + 2] = 'execution_started_at', began
  end
  entry[#entry + 1], entry[#entry + 2] = 'execution_ended_at', string.format('%.6f', NOW)
  call('XADD', key('results', id), 'MAXLEN', '~', 10, '*', unpack(entry))
  if ttl < 0 then
    call('PERSIST', key('results', id))
  else
    call('EXPIRE', key('results', id), ttl)
  end
end

-- Duration of an attempt in seconds, by its start.
local function took(id)
  local began = seconds_of(call('HGET', job_key(id), 'started_at') or nil)
  return began and math.max(0, NOW - began) or 0
end

local function count(worker, what, id)
  local name = key('worker', worker)
  if call('EXISTS', name) == 1 then
    call('HINCRBY', name, what, 1)
    call('HINCRBYFLOAT', name, 'total_working_time', string.format('%.6f', took(id)))
  end
end

local function live_for(id, ttl)
  if ttl > 0 then
    for _, name in ipairs({ job_key(id), key('job', id, 'dependents'), key('job', '', id, 'dependencies') }) do
      call('EXPIRE', name, ttl)
    end
  end
end

-- The wait before the next run of a job that repeats. RQ 2 counts its intervals from the end, RQ 3 removes those that
-- are used.
local function next_interval(id, left, is_old)
  local intervals = waits_of(decoded(field(id, 'repeat_intervals')))
  if #intervals == 0 then return 0 end
  if is_old then return intervals[left] or intervals[#intervals] end
  local first = intervals[1]
  if #intervals > 1 then
    table.remove(intervals, 1)
    call('HSET', job_key(id), 'repeat_intervals', cjson.encode(intervals))
  end
  return first
end

local function again(queue, id, after, at_front)
  if after > 0 then schedule(queue, id, after) else push(queue, id, at_front) end
  return after > 0 and 'delayed' or 'waiting'
end

-- The result of a job: one that is too long for a message was laid down by its worker.
local function value_of(id, execution, said)
  if not said.laid then return said.value end
  local name = key('taskvisor', 'result', id, execution)
  local value = call('GET', name)
  call('DEL', name)
  return value or nil
end

local function finish(id, execution, held, said)
  local queue, limit = held.queue, field(id, 'rate_limit_key')
  local ttl, value = amount(field(id, 'result_ttl')) or amount(said.ttl), value_of(id, execution, said)
  count(held.worker, 'successful_job_count', id)
  -- RQ's cancel does not stop a job that runs: it is finished, but those that wait for it go on waiting.
  local was_canceled = call('HGET', job_key(id), 'status') == 'canceled'
  call('ZREM', key('canceled', queue), id)
  call('HSET', job_key(id), 'status', 'finished', 'ended_at', stamp(NOW), 'last_heartbeat', stamp(NOW))
  if not was_canceled then free_dependents(id, 'finished') end
  forget_counts(id)
  if ttl ~= 0 then
    note_result(id, 1, held, execution, ttl, 'return_value', value)
    call('ZADD', key('finished', queue), ttl < 0 and '+inf' or SECOND + ttl, id)
  end
  forget(queue, id, execution, held.worker)
  local left = tonumber(field(id, 'repeats_left')) or 0
  if left > 0 then
    local after = next_interval(id, left, said.old)
    call('HSET', job_key(id), 'repeats_left', one_less(left))
    again(queue, id, after, false)
  elseif ttl == 0 then
    delete(id)
  else
    live_for(id, ttl)
  end
  free_slot(id, limit)
  return 'complete'
end

local function failure_ttl(id) return amount(field(id, 'failure_ttl')) or FAILURE_TTL end

-- Ends a job that failed or was stopped. `exception` is text in the form of results.
local function bury(id, execution, held, status, kind, name, value)
  local queue, limit = held.queue, field(id, 'rate_limit_key')
  local ttl = failure_ttl(id)
  call('HSET', job_key(id), 'status', status, 'ended_at', stamp(NOW))
  forget_counts(id)
  if ttl == 0 then
    forget(queue, id, execution, held.worker)
    free_dependents(id, status)
    delete(id)
  else
    note_result(id, kind, held, execution, ttl, name, value)
    forget(queue, id, execution, held.worker)
    live_for(id, ttl)
    call('ZADD', key('failed', queue), ttl < 0 and ttl or SECOND + ttl, id)
    free_dependents(id, status)
  end
  free_slot(id, limit)
end

-- Orders the callbacks and webhooks of a job that ends without its worker, unless it is tried again.
local function order_end(queue, id, callback, exception, is_last)
  if is_last and field(id, 'webhooks') then
    callback = callback or { kind = 'failed' }
    callback.exception, callback.ended_at = exception, stamp(NOW)
  end
  if callback then order_callback(queue, id, callback) end
end

local function fail(id, execution, held, said)
  local left, was_canceled = tonumber(field(id, 'retries_left')) or 0, call('HGET', job_key(id), 'status') == 'canceled'
  order_end(held.queue, id, said.callback, said.exception, not was_canceled and not said.stopped and left <= 0)
  count(held.worker, 'failed_job_count', id)
  if was_canceled then
    note_result(id, 2, held, execution, failure_ttl(id), 'exc_string', said.exception)
    forget(held.queue, id, execution, held.worker)
    free_slot(id, field(id, 'rate_limit_key'))
    return 'canceled'
  end
  if left > 0 and not said.stopped then
    local limit, intervals = field(id, 'rate_limit_key'), waits_of(decoded(field(id, 'retry_intervals')))
    local after = intervals[math.max(#intervals - left, 0) + 1] or 0
    call('HSET', job_key(id), 'retries_left', one_less(left), 'ended_at', stamp(NOW))
    forget(held.queue, id, execution, held.worker)
    local state = again(held.queue, id, after, field(id, 'enqueue_at_front_on_retry') == '1')
    free_slot(id, limit)
    return state
  end
  bury(id, execution, held, said.stopped and 'stopped' or 'failed', 2, 'exc_string', said.exception)
  return 'failed'
end

-- The end of a job that was canceled while it ran.
local function stopped(exception) return { exception = exception, stopped = true, callback = { kind = 'stopped' } } end

-- Retries a job that asked for it, or whose worker did.
local function retry(id, execution, held, said)
  -- The job failed: RQ's own retries come first.
  if said.exception and (tonumber(field(id, 'retries_left')) or 0) > 0 then return fail(id, execution, held, said) end
  local done, wish = amount(field(id, 'number_of_retries')) or 0, said.retry
  count(held.worker, 'failed_job_count', id)
  if wish.max and done >= wish.max then
    bury(id, execution, held, 'failed', 5, 'return_value', said.value)
    return 'failed'
  end
  local limit, intervals = field(id, 'rate_limit_key'), waits_of(wish.intervals)
  local after = intervals[math.min(#intervals, done + 1)] or 0
  note_result(id, 4, held, execution, failure_ttl(id), 'return_value', said.value)
  call('HSET', job_key(id), 'number_of_retries', done + 1, 'ended_at', stamp(NOW))
  if wish.at_front then call('HSET', job_key(id), 'enqueue_at_front_on_retry', 1) end
  forget(held.queue, id, execution, held.worker)
  local state = again(held.queue, id, after, field(id, 'enqueue_at_front_on_retry') == '1')
  free_slot(id, limit)
  return state
end

-- Puts a job back to its queue without counting the attempt.
local function release(id, execution, held, said)
  if said.counts == 'interrupted' then call('HINCRBY', job_key(id), 'taskvisor_interrupted', 1) end
  if call('HGET', job_key(id), 'status') ~= 'started' then
    forget(held.queue, id, execution, held.worker)
    free_slot(id, field(id, 'rate_limit_key'))
    return 'canceled'
  end
  if said.after > 0 then
    forget(held.queue, id, execution, held.worker)
    schedule(held.queue, id, said.after)
    free_slot(id, field(id, 'rate_limit_key'))
    return 'delayed'
  end
  give_back(held.queue, id, execution, held.worker)
  return 'waiting'
end

-- The states for the statuses of RQ; any other is waiting.
local STATES = { started = 'running', finished = 'complete', failed = 'failed', stopped = 'failed',
  canceled = 'canceled', scheduled = 'delayed', rate_limited = 'delayed', deferred = 'depends',
  ready_to_enqueue = 'depends' }
local function state_of(status) return STATES[status] or 'waiting' end

-- RQ's own code has run the job. If it has not written an end, the job ended like one whose work horse died.
local function native(id, execution, held, said)
  local status = call('HGET', job_key(id), 'status')
  local is_open = call('EXISTS', key('execution', id .. ':' .. execution)) == 1
  if is_open and status == 'started' then return fail(id, execution, held, said) end
  forget(held.queue, id, execution, held.worker)
  if not status then return 'complete' end
  free_slot(id, field(id, 'rate_limit_key'))
  return status == 'started' and 'waiting' or state_of(status)
end

-- The end of an order is none of a job: how its job ended was counted before.
local function ordered(order, execution, held, how)
  if how == 'release' then
    give_back(held.queue, order, execution, held.worker)
  else
    end_order(held.queue, order, execution, held.worker)
  end
  return 'aside'
end

local ENDS = { finish = finish, fail = fail, retry = retry, release = release, native = native }

-- Raises an error before anything is written if another program uses a key that an end writes.
local function check_end(queue, id, execution, worker)
  check_way_back(queue, id, execution, worker)
  for _, registry in ipairs({ 'finished', 'failed', 'canceled' }) do call('ZCARD', key(registry, queue)) end
  call('XLEN', key('results', id))
  for _, other in ipairs(call('SMEMBERS', key('job', id, 'dependents'))) do
    local origin = call('HGET', job_key(other), 'origin') or queue
    check_queue(origin)
    for _, registry in ipairs({ 'deferred', 'ready' }) do call('ZCARD', key(registry, origin)) end
    check_limit(other)
  end
end

local function settle_one(id, execution, how, said, ended, fields)
  said = cjson.decode(said)
  local held = holder(id, execution)
  if held then check_end(held.queue, id, execution, held.worker) end
  local status = held and call('HGET', job_key(id), 'status')
  -- RQ's own code has written an end, and then raised.
  if status and how == 'fail' and status ~= 'started' and status ~= 'canceled' then how = 'native' end
  local is_ours = status and (how == 'native' or status == 'canceled' or owns(id, execution, held))
  if is_ours and is_order(id) then return ordered(id, execution, held, how) end
  if is_ours then
    if #fields > 0 then call('HSET', job_key(id), unpack(fields)) end
    local attempt = attempt_of(id, execution, held)
    local canceled = how ~= 'finish' and how ~= 'native' and field(id, 'taskvisor_canceled')
    if canceled then how, said = 'fail', stopped(canceled) end
    local state = ENDS[how](id, execution, held, said)
    if ended ~= '' then note_attempt(id, attempt, state, ended) end
    if how == 'fail' or how == 'retry' then spend(id, state, said.crashed) end
    if how == 'release' and said.crashed then call('HINCRBY', job_key(id), 'taskvisor_crashes', 1) end
    return state
  end
  if held and how == 'native' then return native(id, execution, held, said) end
  if held then forget(held.queue, id, execution, held.worker) end
  return 'not_ours'
end

-- An end is checked before it is written: after an error it comes again.
local function settle()
  local answers = {}
  for i = 1, number() do answers[i] = alone(settle_one, arg(), arg(), arg(), arg(), arg(), list()) end
  return answers
end
