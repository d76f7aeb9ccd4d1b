-- complete: ends a job, or moves it into the next queue.

if command == 'complete' then
  -- Most old jobs that one completion removes, as text: no call may take long.
  local AT_ONCE = '1000'

  -- Removes a job that completed long ago. If the same id is in use again, that job stays.
  local function expire(jid)
    local state, tags, from, ended = fields(jid, 'state', 'tags', 'from', 'ended')
    if state == 'complete' and from and ended then call('HINCRBY', 'ql:taskvisor:ended', 'complete:' .. from, -1) end
    if state == 'complete' then news('removed', jid, from, state) end
    if state == 'complete' or not state then forget(jid, tags) end
  end

  -- Removes complete jobs that are too old or too many.
  local function expire_complete()
    local age, most = unpack(call('HMGET', 'ql:config', 'jobs-history', 'jobs-history-count'))
    age, most = number(age) or 604800, floor(number(most) or 50000)
    local old = call('ZRANGEBYSCORE', 'ql:completed', '-inf', format('%d', clock - age), 'LIMIT', '0', AT_ONCE)
    for _, jid in ipairs(old) do expire(jid) end
    if #old > 0 then call('ZREM', 'ql:completed', unpack(old)) end
    local surplus = math.min(call('ZCARD', 'ql:completed') - math.max(most, 0), tonumber(AT_ONCE))
    if surplus > 0 then
      for _, jid in ipairs(call('ZRANGE', 'ql:completed', 0, surplus - 1)) do expire(jid) end
      call('ZREMRANGEBYRANK', 'ql:completed', 0, surplus - 1)
    end
  end

  -- Puts a job that is done in one queue into the next one. Gives its state there.
  local function advance(jid, queue, next_queue, priority, delay, needs)
    local key, becomes = 'ql:q:' .. next_queue, 'waiting'
    tell('{"jid":' .. encode(jid) .. ',"to":' .. encode(next_queue) .. ',"event":"advanced","queue":' .. encode(queue)
      .. '}')
    history(jid, clock, 'put', '{"q":' .. encode(next_queue) .. '}')
    know_queue(next_queue)
    if depend(jid, needs) then
      becomes = 'depends'
      call('ZADD', key .. '-depends', now, jid)
      if delay > 0 then call('HSET', 'ql:j:' .. jid, 'scheduled', clock + delay) end
    elseif delay > 0 then
      becomes = 'scheduled'
      call('ZADD', key .. '-scheduled', clock + delay, jid)
    else
      enter_work(jid, next_queue, priority, clock)
    end
    return becomes
  end

  -- Completes a job. Gives `complete`, or the job's state in the queue `given.next`.
  local function complete_job(jid, worker, queue, data, given)
    need(worker, 'Complete(): Arg "worker" missing')
    need(queue, 'Complete(): Arg "queue" missing')
    need(json(data), 'Complete(): Arg "data" missing or not JSON: ', data)
    local next_queue = given.next
    local delay = need(number(given.delay or 0), 'Complete(): Arg "delay" not a number: ', given.delay)
    local needs = need(json_names(given.depends or '[]'), 'Complete(): Arg "depends" not JSON: ', given.depends)
    need(next_queue or not given.delay, 'Complete(): "delay" cannot be used without a "next".')
    need(next_queue or not given.depends, 'Complete(): "depends" cannot be used without a "next".')
    local state, from, has_worker, priority, retries, time, grace, has_hold =
      fields(jid, 'state', 'queue', 'worker', 'priority', 'retries', 'time', 'grace', 'hold')
    if not state then error('Complete(): Job ' .. jid .. ' does not exist') end
    if state ~= 'running' then error('Complete(): Job ' .. jid .. ' is not currently running: ' .. state) end
    if not is_holder(worker, given.hold, has_worker, has_hold) then
      error('Complete(): Job ' .. jid .. ' has been handed out to another worker: ' .. tostring(has_worker))
    end
    if from ~= queue then error('Complete(): Job ' .. jid .. ' running in another queue: ' .. tostring(from)) end

    need_lists(queue, '-locks')
    if next_queue then
      need_lists(next_queue, '-work', '-scheduled', '-depends')
      need_kind('zset', 'ql:queues')
    else
      need_kind('zset', 'ql:completed')
    end
    history(jid, clock, 'done')
    -- A running job is in the list of locks, unless another script has lost it.
    if call('ZREM', 'ql:q:' .. queue .. '-locks', jid) == 0 then leave(jid, queue) end
    stat('run', queue, clock, {clock - (number(time) or clock)})
    forget_worker_job(worker, jid)
    if grace then call('HDEL', 'ql:j:' .. jid, 'grace') end
    tell_followers('completed', jid)
    local becomes = 'complete'
    if next_queue then
      becomes = advance(jid, queue, next_queue, priority, delay, needs)
    else
      tell('{"jid":' .. encode(jid) .. ',"event":"completed","queue":' .. encode(queue) .. '}')
    end
    call('HSET', 'ql:j:' .. jid, 'state', becomes, 'worker', '', 'failure', '{}', 'queue', next_queue or '',
      'expires', '0', 'remaining', retries or '0', 'data', data, 'time', format('%.20f', clock))
    if next_queue then
      news('advanced', jid, next_queue, becomes)
    else
      news('complete', jid, queue, becomes)
      call('ZADD', 'ql:completed', now, jid)
      expire_complete()
      release_dependents(jid, clock)
    end
    return becomes
  end

  if command == 'complete' then
    local jid, worker, queue, data = unpack(args, 3, 6)
    return complete_job(need(jid, 'Complete(): Arg "jid" missing'), worker, queue, data, named_args(7))
  end
end
