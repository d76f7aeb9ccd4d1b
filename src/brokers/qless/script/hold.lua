-- Commands of the worker that holds a job: fail, retry, heartbeat. Also timeout, which takes the job away.

if command == 'fail' or command == 'retry' or command == 'heartbeat' or command == 'timeout' then
  -- The last pair of arguments, if it names a lease. `most` is the largest number of arguments before it.
  local function last_hold(least, most)
    local before = #args - 4
    if args[#args - 1] == 'hold' and before >= least and before <= most then
      local hold = args[#args]
      args[#args], args[#args - 1] = nil, nil
      return hold
    end
  end

  local function fail_job(jid, worker, group, message, data, hold)
    need(worker, 'Fail(): Arg "worker" missing')
    need(group, 'Fail(): Arg "group" missing')
    need(message, 'Fail(): Arg "message" missing')
    if data then need(json(data), 'Fail(): Arg "data" not JSON: ', data) end
    local state, queue, has_worker, has_hold = fields(jid, 'state', 'queue', 'worker', 'hold')
    if not state then error('Fail(): Job ' .. jid .. 'does not exist') end
    if state ~= 'running' then error('Fail(): Job ' .. jid .. 'not currently running: ' .. state) end
    if not is_holder(worker, hold, has_worker, has_hold) then
      error('Fail(): Job ' .. jid .. ' running with another worker: ' .. tostring(has_worker))
    end

    queue = queue or ''
    need_failure(queue, group)
    tell_failed(jid, group, message, worker)
    tell_followers('failed', jid)
    forget_worker_job(worker, jid)
    history(jid, clock, 'failed', '{"worker":' .. encode(worker) .. ',"group":' .. encode(group) .. '}')
    if data then call('HSET', 'ql:j:' .. jid, 'data', data) end
    set_failed(jid, queue, clock, group, failure_text(group, message, floor(clock), worker))
    news('failed', jid, queue, 'failed')
    return jid
  end

  -- Puts a job back for another try in `queue`, or fails it when none is left. Gives the number of tries left after
  -- this one, less than 0 if the job has failed.
  local function retry_job(jid, queue, worker, delay, group, message, hold)
    need(queue, 'Retry(): Arg "queue" missing')
    need(worker, 'Retry(): Arg "worker" missing')
    delay = need(number(delay or 0), 'Retry(): Arg "delay" not a number: ', delay)
    local state, from, has_worker, priority, remaining, has_hold =
      fields(jid, 'state', 'queue', 'worker', 'priority', 'remaining', 'hold')
    if not state then error('Retry(): Job ' .. jid .. ' does not exist') end
    if state ~= 'running' then error('Retry(): Job ' .. jid .. ' is not currently running: ' .. state) end
    if not is_holder(worker, hold, has_worker, has_hold) then
      error('Retry(): Job ' .. jid .. ' has been given to another worker: ' .. tostring(has_worker))
    end

    need_failure(from or '', group or 'failed-retries-' .. queue)
    need_lists(queue, '-work', '-scheduled')
    local key = 'ql:j:' .. jid
    remaining = (number(remaining) or 0) - 1
    call('HSET', key, 'remaining', remaining)
    call('HDEL', key, 'grace')
    call('ZREM', 'ql:q:' .. (from or '') .. '-locks', jid)
    forget_worker_job(worker, jid)
    local failure = group and message and failure_text(group, message, floor(clock), worker)
    if remaining < 0 then
      fail_spent(jid, from or '', worker, group or 'failed-retries-' .. queue, message, failure,
        true)
      return remaining
    end
    if failure then call('HSET', key, 'failure', failure) end
    call('HSET', key, 'state', delay > 0 and 'scheduled' or 'waiting', 'queue', queue, 'worker', '', 'expires', '0')
    if delay > 0 then
      call('ZADD', 'ql:q:' .. queue .. '-scheduled', clock + delay, jid)
    else
      enter_work(jid, queue, priority, clock)
    end
    history(jid, clock, 'retried', '{"q":' .. encode(queue) .. '}')
    tell_put(jid, queue)
    news('again', jid, queue, delay > 0 and 'scheduled' or 'waiting')
    return remaining
  end

  -- Length of the leases of a queue.
  local function lease_of(queue)
    local own, all = unpack(call('HMGET', 'ql:config', queue .. '-heartbeat', 'heartbeat'))
    return number(own) or number(all) or 60
  end

  -- Extends a lease. Gives its new end.
  local function renew_job(jid, worker, data, hold)
    need(worker, 'Heartbeat(): Arg "worker" missing')
    if data then need(json(data), 'Heartbeat(): Arg "data" not JSON: ', data) end
    local state, queue, has_worker, has_hold, grace = fields(jid, 'state', 'queue', 'worker', 'hold', 'grace')
    if not state then error('Heartbeat(): Job ' .. jid .. ' does not exist') end
    if state ~= 'running' then error('Heartbeat(): Job ' .. jid .. ' not currently running: ' .. state) end
    if not is_holder(worker, hold, has_worker, has_hold) then
      error('Heartbeat(): Job ' .. jid .. ' given out to another worker: ' .. tostring(has_worker))
    end

    queue = queue or ''
    need_lists(queue, '-locks')
    local key, expires = 'ql:j:' .. jid, clock + lease_of(queue)
    local expires_text = format('%.17g', expires)
    call('HSET', key, 'expires', expires_text)
    if data then call('HSET', key, 'data', data) end
    -- When the lease ends the next time, that is published again.
    if grace then call('HDEL', key, 'grace') end
    call('ZADD', 'ql:q:' .. queue .. '-locks', expires_text, jid)
    aside('ZADD', 'ql:w:' .. worker .. ':jobs', expires_text, jid)
    aside('ZADD', 'ql:workers', now, worker)
    return expires
  end

  -- Takes a job from its worker; it is the next one handed out.
  local function time_out(jid)
    local queue, worker = fields(jid, 'queue', 'worker')
    queue = queue or ''
    local key = 'ql:q:' .. queue
    need_lists(queue, '-locks', '-work')
    history(jid, clock, 'timed-out')
    call('ZREM', key .. '-locks', jid)
    call('ZADD', key .. '-work', '+inf', jid)
    call('HSET', 'ql:j:' .. jid, 'state', 'stalled', 'expires', '0')
    call('HDEL', 'ql:j:' .. jid, 'grace')
    tell_lock_lost(jid, worker or '')
    news('lock_lost', jid, queue, 'waiting')
  end

  if command == 'fail' then
    local hold = last_hold(4, 5)
    local jid, worker, group, message, data = unpack(args, 3, 7)
    return fail_job(need(jid, 'Fail(): Arg "jid" missing'), worker, group, message, data, hold)
  end

  if command == 'retry' then
    local hold = last_hold(3, 3) or last_hold(6, 6)
    local jid, queue, worker, delay, group, message = unpack(args, 3, 8)
    -- These arguments may be a fence, or a group and its message. An unclear case is refused.
    if group == 'hold' and not hold and tostring(message):find('^%d+$') then
      error('Retry(): "hold" and a number after a delay may be a group and its message: '
        .. 'name delay, group and message before a hold, or none of them')
    end
    return retry_job(need(jid, 'Retry(): Arg "jid" missing'), queue, worker, delay, group, message, hold)
  end

  if command == 'heartbeat' then
    local hold = last_hold(2, 3)
    local jid, worker, data = unpack(args, 3, 5)
    return renew_job(need(jid, 'Heartbeat(): Arg "jid" missing'), worker, data, hold)
  end

  if command == 'timeout' then
    for i = 3, #args do
      local state = fields(args[i], 'state')
      if not state then error('Timeout(): Job ' .. args[i] .. ' does not exist') end
      if state ~= 'running' then error('Timeout(): Job ' .. args[i] .. ' not running') end
    end
    for i = 3, #args do time_out(args[i]) end
    return
  end
end
