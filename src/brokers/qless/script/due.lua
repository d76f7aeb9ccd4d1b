-- What is due in a queue: leases that have ended, recurring jobs, delayed jobs.

local spawn_due
if command == 'pop' or command == 'peek' or command == 'taskvisor.fetch' then
  -- Makes a job of a recurring one, due at `due`. Skips ids that an earlier recurring job of the same name has used.
  local function spawn(parent, recurring, queue, due)
    local jid, key
    repeat
      jid = parent .. '-' .. call('HINCRBY', 'ql:r:' .. parent, 'count', 1)
      key = 'ql:j:' .. jid
    until call('EXISTS', key) == 0
    local priority, retries = recurring.priority or '0', recurring.retries or '0'
    call('HSET', key, 'jid', jid, 'klass', recurring.klass or '', 'data', recurring.data or '{}', 'priority', priority,
      'tags', recurring.tags or '{}', 'state', 'waiting', 'worker', '', 'expires', '0', 'queue', queue,
      'retries', retries, 'remaining', retries, 'time', format('%.20f', due), 'spawned_from_jid', parent)
    enter_work(jid, queue, priority, due)
    aside('ZREM', 'ql:completed', jid)
    tag(jid, json_names(recurring.tags) or {}, clock)
    history(jid, due, 'put', '{"q":' .. encode(queue) .. '}')
    news('put', jid, queue, 'waiting')
  end

  -- Puts the jobs of recurring ones that are due.
  function spawn_due(queue, most)
    local recur = 'ql:q:' .. queue .. '-recur'
    need_lists(queue, '-recur', '-work')
    local due = call('ZRANGEBYSCORE', recur, 0, now, 'WITHSCORES', 'LIMIT', 0, most)
    for i = 1, #due, 2 do
      local parent, at, recurring = due[i], floor(tonumber(due[i + 1])), {}
      recurring.klass, recurring.data, recurring.priority, recurring.tags, recurring.retries, recurring.interval,
        recurring.backlog = unpack(call('HMGET', 'ql:r:' .. parent, 'klass', 'data', 'priority', 'tags', 'retries',
          'interval', 'backlog'))
      local interval, backlog = number(recurring.interval) or 0, number(recurring.backlog) or 0
      if interval > 0 then
        -- Of those that are overdue, no more than `backlog`.
        local overdue = (clock - at) / interval
        if backlog ~= 0 and overdue > backlog then at = at + math.ceil(overdue - backlog) * interval end
        while at <= clock and most > 0 do
          spawn(parent, recurring, queue, at)
          at, most = at + interval, most - 1
        end
        call('ZADD', recur, at, parent)
      else
        call('ZREM', recur, parent)
      end
    end
  end
end

local fail_spent, take_expired, free_scheduled, need_count
if command == 'pop' or command == 'peek' or command == 'retry' or command == 'jobs' or command == 'queues' then
  -- Reads the argument that says how many jobs are wanted.
  function need_count(text, of)
    local count = need(number(text), of .. '(): Arg "count" missing or not a number: ', text)
    if count < 0 then error(of .. '(): Arg "count" is less than 0: ' .. text) end
    return math.min(floor(count), 1e9)
  end

  -- Tells a worker that its lease has ended, and starts its grace.
  local function send_courtesy(jid, queue, worker)
    tell_followers('stalled', jid)
    history(jid, clock, 'timed-out')
    call('HSET', 'ql:j:' .. jid, 'grace', 1)
    if worker then tell_lock_lost(jid, worker) end
    count(queue, clock, 'retries', 1)
  end

  -- Fails a job that has no try left. Without a given failure, the message says that no try was left. With `is_quiet`
  -- nothing is published on `ql:log`, as in qless.
  function fail_spent(jid, queue, worker, group, message, failure, is_quiet)
    group = group or 'failed-retries-' .. queue
    message = message or 'Job exhausted retries in queue "' .. queue .. '"'
    failure = failure or failure_text(group, message, clock, '')
    history(jid, clock, 'failed', '{"group":' .. encode(group) .. '}')
    set_failed(jid, queue, clock, group, failure)
    tell_followers('failed', jid)
    if not is_quiet then tell_failed(jid, group, message, worker or '') end
    news('failed', jid, queue, 'failed')
  end

  -- Looks at leases that have ended. Gives the ids of jobs whose worker has had its grace: they may be handed out.
  function take_expired(queue, most, grace)
    local locks, free = 'ql:q:' .. queue .. '-locks', {}
    need_failure(queue, 'failed-retries-' .. queue)
    for _, jid in ipairs(call('ZRANGEBYSCORE', locks, '-inf', now, 'LIMIT', 0, most)) do
      local state, worker, was_told, remaining, from = fields(jid, 'state', 'worker', 'grace', 'remaining', 'queue')
      if state ~= 'running' or from and from ~= queue then
        -- An entry of a job that is gone, or in another queue.
        call('ZREM', locks, jid)
      else
        forget_worker_job(worker, jid)
        if was_told ~= '1' then send_courtesy(jid, queue, worker) end
        if was_told ~= '1' and grace > 0 then
          call('ZADD', locks, clock + grace, jid)
        else
          call('HDEL', 'ql:j:' .. jid, 'grace')
          remaining = (number(remaining) or 0) - 1
          call('HSET', 'ql:j:' .. jid, 'remaining', remaining)
          if remaining < 0 then
            fail_spent(jid, queue, worker)
          else
            free[#free + 1] = jid
            news('lock_lost', jid, queue, 'waiting')
          end
        end
      end
    end
    return free
  end

  -- Moves delayed jobs that are due to the waiting ones.
  function free_scheduled(queue, most)
    local scheduled = 'ql:q:' .. queue .. '-scheduled'
    need_lists(queue, '-scheduled', '-work')
    for _, jid in ipairs(call('ZRANGEBYSCORE', scheduled, 0, now, 'LIMIT', 0, most)) do
      local state, priority = fields(jid, 'state', 'priority')
      if state then
        enter_work(jid, queue, priority, clock)
        call('HSET', 'ql:j:' .. jid, 'state', 'waiting')
      end
      call('ZREM', scheduled, jid)
    end
  end
end
