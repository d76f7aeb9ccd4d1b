-- Recurring jobs of taskvisor. Each has a hash, which outlives its removal to keep the number of its last job. An index
-- has those in force by the time at which to look at them (milliseconds; never, if it is paused or never due again).
-- The broker computes the occurrences, as cron needs time zones, and the first supervisor to write them wins. Each
-- change of a schedule makes a new version; occurrences computed from an older version change nothing.

if command:sub(1, 16) == 'taskvisor.recur.' then
  local RECUR = 'ql:taskvisor:recur'
  local SHOWN = {'spec', 'put_at', 'put_by', 'next', 'count', 'skipped', 'missed', 'paused', 'version', 'latest'}

  local function recur_key(name)
    return RECUR .. ':' .. name
  end

  -- Fields of its hash; none if another program has stored something else there, which must not hide the others.
  local function kept(name, ...)
    local fine, values = pcall(call, 'HMGET', recur_key(name), ...)
    return fine and values or {}
  end

  local function is_in_force(name)
    return call('ZSCORE', RECUR, name)
  end

  -- The refusal for a recurring job that is not in force: there is none, or it belongs to qless.
  local function no_such(name)
    return no(call('EXISTS', 'ql:r:' .. name) == 1 and 'of_qless' or 'recurring', name)
  end

  -- Changes it, which makes a new version, and sets the time to look at it.
  local function change(name, set, unset)
    local key = recur_key(name)
    call('HINCRBY', key, 'version', 1)
    if #set > 0 then call('HSET', key, unpack(set)) end
    if #unset > 0 then call('HDEL', key, unpack(unset)) end
    local due, paused = unpack(call('HMGET', key, 'next', 'paused'))
    call('ZADD', RECUR, not paused and due or '+inf', name)
  end

  -- Wakes the supervisors, which look when it is due.
  local function tell_change()
    call('PUBLISH', 'ql:taskvisor', '')
  end

  -- Its latest job, if that still exists: its id, its state, and when it was due.
  local function latest_of(name, jid)
    if not jid then return false end
    local job = read(jid, LOOKED_AT)
    local recurring, put_at = fields(jid, 'recurring', 'put_at')
    return job.state and recurring == name and {jid, state_of(job), put_at} or false
  end

  -- A recurring job as it is shown.
  local function shown(name)
    local values = kept(name, unpack(SHOWN))
    values[10] = latest_of(name, values[10])
    return {name, values}
  end

  -- A recurring job of qless; a list of its queue has its next time.
  local function shown_of_qless(name)
    local values = call('HMGET', 'ql:r:' .. name, 'queue', 'klass', 'data', 'priority', 'tags', 'retries', 'interval',
      'backlog', 'count')
    if not values[1] then return end
    local latest = name .. '-' .. (values[9] or 0)
    local job = read(latest, LOOKED_AT)
    values[10] = call('ZSCORE', 'ql:q:' .. values[1] .. '-recur', name)
    values[11] = job.state and {latest, state_of(job), (fields(latest, 'time'))} or false
    return {name, values}
  end

  -- Puts a job for an occurrence. Skips ids that are taken.
  local function put_one(name, job, at, by)
    local key = recur_key(name)
    repeat
      job.jid = name .. '-' .. call('HINCRBY', key, 'count', 1)
    until call('EXISTS', 'ql:j:' .. job.jid) == 0
    job.brought = job.brought or job.more
    job.more = {
      'recurring', name, 'put_by', by, 'put_at', at, 'time', format('%.3f', at / 1000), unpack(job.brought),
    }
    call('ZADD', 'ql:taskvisor:jobs', call('INCR', 'ql:taskvisor:place'), job.jid)
    local state = insert(job)
    call('HSET', key, 'latest', job.jid)
    return {job.jid, state}
  end

  -- Moves a recurring job to its next occurrence, and puts its jobs. With `skips`, it puts none while the last one has
  -- not ended. The move comes first: if a put fails then, it is not repeated for ever.
  local function have(due)
    local name, put, skipped, set, unset = due.name, {}, 0, {}, {}
    if due.missed ~= '' then set = {'missed', due.missed} end
    if due.next ~= '' then
      set[#set + 1], set[#set + 2] = 'next', due.next
    else
      unset[1] = 'next'
    end
    change(name, set, unset)
    for _, at in ipairs(due.times) do
      local latest = due.skips and latest_of(name, call('HGET', recur_key(name), 'latest'))
      if latest and not ENDED[latest[2]] then
        skipped = skipped + 1
      else
        put[#put + 1] = put_one(name, due.job, at, due.by)
      end
    end
    if skipped > 0 then call('HINCRBY', recur_key(name), 'skipped', skipped) end
    return put
  end

  if command == 'taskvisor.recur.put' then
    local name, schedule, spec, queue, by, due = take(), take(), take(), take(), take(), take()
    if call('EXISTS', 'ql:r:' .. name) == 1 then return no('of_qless', name) end
    local key = recur_key(name)
    local set = {'spec', spec, 'schedule', schedule, 'queue', queue, 'put_at', millis, 'put_by', by}
    local unset = is_in_force(name) and {} or {'skipped', 'missed', 'paused'}
    -- If the schedule is the same as before, it stays due when it was.
    if #unset > 0 or call('HGET', key, 'schedule') ~= schedule then
      if due ~= '' then
        set[#set + 1], set[#set + 2] = 'next', due
      else
        unset[#unset + 1] = 'next'
      end
    end
    change(name, set, unset)
    know_queue(queue)
    tell_change()
    return shown(name)
  end

  if command == 'taskvisor.recur.show' then
    local name = take()
    if is_in_force(name) then return {shown(name), false} end
    local theirs = shown_of_qless(name)
    return theirs and {false, theirs} or no('recurring', name)
  end

  if command == 'taskvisor.recur.list' then
    local ours, theirs = {}, {}
    for _, name in ipairs(call('ZRANGE', RECUR, 0, -1)) do ours[#ours + 1] = shown(name) end
    for _, queue in ipairs(call('ZRANGE', 'ql:queues', 0, -1)) do
      for _, name in ipairs(call('ZRANGE', 'ql:q:' .. queue .. '-recur', 0, -1)) do
        theirs[#theirs + 1] = shown_of_qless(name)
      end
    end
    return {ours, theirs}
  end

  if command == 'taskvisor.recur.pause' then
    local name, by = take(), take()
    if not is_in_force(name) then return no_such(name) end
    if not call('HGET', recur_key(name), 'paused') then
      change(name, {'paused', '{"since":' .. millis .. ',"by":' .. encode(by) .. ',"reason":null}'}, {})
    end
    return 1
  end

  if command == 'taskvisor.recur.resume' then
    local name = take()
    if not is_in_force(name) then return no_such(name) end
    change(name, {}, {'paused'})
    tell_change()
    return 1
  end

  -- Removes it. One of qless goes as by `unrecur`, even if a client with a script of its own has made one of the same
  -- name.
  if command == 'taskvisor.recur.remove' then
    local name = take()
    local is_ours, queue = is_in_force(name), call('HGET', 'ql:r:' .. name, 'queue')
    if not is_ours and not queue then return no('recurring', name) end
    if is_ours then
      change(name, {}, {'next', 'paused', 'schedule', 'spec'})
      call('ZREM', RECUR, name)
    end
    if queue then
      call('ZREM', 'ql:q:' .. queue .. '-recur', name)
      call('DEL', 'ql:r:' .. name)
    end
    return 1
  end

  -- Puts a job now, because a person asks for it; nothing if the request is based on an older version.
  if command == 'taskvisor.recur.run' then
    local name, version, by, job = take(), take(), take(), take_job()
    if not is_in_force(name) then return no_such(name) end
    if call('HGET', recur_key(name), 'version') ~= version then return false end
    local put = put_one(name, job, millis, by)
    keep_orders()
    return {put[1], put[2], millis}
  end

  -- The recurring jobs that are due, and when to look for the next. The same look fails the jobs that have not begun in
  -- time, in all queues: nobody has to ask for their jobs.
  if command == 'taskvisor.recur.due' then
    if first_unbegun() <= clock then
      write_though_full()
      each_due(UNBEGUN, nil, DROPPED_AT_ONCE, drop_unbegun)
    end
    local at, most, found = take(), take(), {}
    for i, name in ipairs(call('ZRANGEBYSCORE', RECUR, '-inf', at, 'LIMIT', 0, most)) do
      local spec, due, version = unpack(kept(name, 'spec', 'next', 'version'))
      found[i] = {name, version or '', due or '', spec or ''}
    end
    local later = call('ZRANGEBYSCORE', RECUR, '(' .. at, '(+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
    local next_look = math.min(number(later) or math.huge, math.ceil(first_unbegun() * 1000))
    return {next_look < math.huge and format('%.0f', next_look), found}
  end

  -- Puts the jobs that are due. For each recurring job gives the ids put, nothing if another supervisor has put them,
  -- or an error, which does not stop the others.
  if command == 'taskvisor.recur.have' then
    local answers = {}
    for i = 1, tonumber(take()) do
      local due = {
        name = take(), version = take(), next = take(), missed = take(), skips = take() == '1', times = take_list(),
        by = take(), job = take_job(),
      }
      if is_in_force(due.name) and call('HGET', recur_key(due.name), 'version') == due.version then
        local fine, answer = pcall(have, due)
        local why = not fine and (type(answer) == 'table' and answer.err or tostring(answer))
        answers[i] = why and {'no', why} or {'put', answer}
      else
        answers[i] = false
      end
    end
    keep_orders()
    return answers
  end

  -- Corrects a schedule that a clock far ahead had moved too far.
  if command == 'taskvisor.recur.mend' then
    local name, version, due = take(), take(), take()
    if not is_in_force(name) or call('HGET', recur_key(name), 'version') ~= version then return 0 end
    change(name, {'next', due}, {})
    return 1
  end
end
