-- Removes ended jobs after a while, a few at a time during other calls: complete and canceled ones when they are old or
-- too many, failed ones when they are old. Held jobs wait for a person.

if command == 'taskvisor.fetch' or command == 'taskvisor.settle' then
  -- Number of jobs to look at in one call, of each kind.
  local AT_ONCE = 100
  -- Seconds from a finished look to the next one, and between two calls of an unfinished one.
  local BETWEEN, BREATH = 60, 0.01
  -- Number of days for which statistics are kept.
  local DAYS = 90
  local LOOK = 'ql:taskvisor:look'
  local STATES = {
    ['ql:completed'] = 'complete', ['ql:taskvisor:canceled'] = 'canceled', ['ql:taskvisor:failed'] = 'failed',
  }

  -- Whether a job must stay: another one needs it, it is tracked, or it is the latest of a recurring job.
  local function is_kept(jid)
    if call('ZSCORE', 'ql:tracked', jid) or #dependents(jid) > 0 then return true end
    local recurring = fields(jid, 'recurring')
    return recurring and call('HGET', 'ql:taskvisor:recur:' .. recurring, 'latest') == jid
  end

  -- The next jobs of some indices by time, the oldest first. `look` says how many to skip in each.
  local function oldest(look, indices)
    local found = {}
    for _, index in ipairs(indices) do
      local from = number(look[index] or 0)
      local some = call('ZRANGE', index, from, from + AT_ONCE - 1, 'WITHSCORES')
      for i = 1, #some, 2 do found[#found + 1] = {index = index, jid = some[i], at = number(some[i + 1]) or 0} end
    end
    table.sort(found, function(one, other)
      if one.at ~= other.at then return one.at < other.at end
      return one.jid < other.jid
    end)
    return found
  end

  -- Removes those that ended by `limit`, and `surplus` of the others. Gives whether no more are left.
  local function walk(look, indices, limit, surplus)
    local found = oldest(look, indices)
    for i, one in ipairs(found) do
      if i > AT_ONCE then return false end
      if one.at > limit and surplus <= 0 then return true end
      local job = read(one.jid, LOOKED_AT)
      if state_of(job) ~= STATES[one.index] then
        -- Another program has removed the job, or put it again.
        call('ZREM', one.index, one.jid)
      elseif is_kept(one.jid) then
        look[one.index] = number(look[one.index] or 0) + 1
      else
        remove(one.jid, job)
        surplus = surplus - 1
      end
    end
    return #found < AT_ONCE
  end

  -- Once a day removes the statistics of the day that is now too old, and of earlier days on which this was not called:
  -- those of some queues at a time. Gives whether no more are left.
  local function forget_days(look)
    local last = floor(clock / 86400) - DAYS - 1
    local day = math.max(number(look.day or last - 1) + 1, last - DAYS)
    if day > last then return true end
    local cursor, queues = unpack(call('ZSCAN', 'ql:queues', look.cursor or '0', 'COUNT', AT_ONCE))
    for i = 1, #queues, 2 do
      for _, kind in ipairs({'wait', 'run', 'stats'}) do call('DEL', figures(kind, queues[i], day * 86400)) end
    end
    look.cursor = cursor ~= '0' and cursor or nil
    if not look.cursor then look.day = tostring(day) end
    return day == last and not look.cursor
  end

  local function tidy()
    local at = number(call('HGET', LOOK, 'at') or 0) or 0
    if at <= clock or at > clock + BETWEEN then
      local look, flat = {}, call('HGETALL', LOOK)
      for i = 1, #flat, 2 do look[flat[i]] = flat[i + 1] end
      local is_over = forget_days(look)
      local complete, failed = option('jobs-history', 604800), option('keep-failed', 2592000)
      local surplus = call('ZCARD', 'ql:completed') + call('ZCARD', 'ql:taskvisor:canceled')
        - (aside('ZCARD', 'ql:tracked') or 0) - option('jobs-history-count', 50000)
      is_over = walk(look, {'ql:completed', 'ql:taskvisor:canceled'}, clock - complete, surplus) and is_over
      is_over = walk(look, {'ql:taskvisor:failed'}, clock - failed, 0) and is_over
      if is_over then look = {day = look.day} end
      look.at = format('%.3f', clock + (is_over and BETWEEN or BREATH))
      local kept = {}
      for name, value in pairs(look) do
        kept[#kept + 1] = name
        kept[#kept + 1] = value
      end
      call('DEL', LOOK)
      call('HSET', LOOK, unpack(kept))
    end
  end
  guarded(LOOK, nil, tidy)
end
