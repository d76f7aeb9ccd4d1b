-- Lists of jobs in the order in which they were put: one call looks at some hundred.

-- Takes a filter: each part is empty if any value will do. A group has a sign before it, as its name may be empty.
local function take_asked()
  local asked = {states = {}}
  for _, state in ipairs(take_list()) do asked.states[state] = true end
  asked.queue, asked.klass, asked.tag, asked.group, asked.tracked, asked.recurring =
    take(), take(), take(), take(), take() == '1', take()
  asked.group = asked.group ~= '' and asked.group:sub(2) or nil
  asked.since, asked.till, asked.prefix = tonumber(take()), tonumber(take()), take()
  return asked
end

-- Whether the id of a job begins as asked: known before the job is read.
local function begins(asked, jid)
  return asked.prefix == '' or jid:sub(1, #asked.prefix) == asked.prefix
end

local matches, stretch
if command == 'taskvisor.list' or command == 'taskvisor.count_tasks' or command == 'taskvisor.sweep' then
  -- The next jobs behind a place that the filter may match, and whether there may be more: those that the caller has
  -- gathered from indices, or any.
  function stretch(from, rows, is_up)
    local count, found = take(), {}
    if count ~= 'any' then
      for i = 1, tonumber(count) do found[i] = {place = take(), jid = take()} end
      return found, #found == rows
    end
    local name, to = is_up and 'ZRANGEBYSCORE' or 'ZREVRANGEBYSCORE', is_up and '+inf' or '-inf'
    local flat = call(name, 'ql:taskvisor:jobs', '(' .. from, to, 'WITHSCORES', 'LIMIT', 0, rows)
    for i = 1, #flat, 2 do found[#found + 1] = {jid = flat[i], place = flat[i + 1]} end
    return found, #found == rows
  end

  local function group_of(job)
    if job.state ~= 'failed' then return end
    return job.group or tostring((json_table(job.failure or '') or {}).group or '')
  end

  -- The recurring job that has put a job, ours or of qless.
  local function maker(jid)
    local recurring, parent = fields(jid, 'recurring', 'spawned_from_jid')
    return recurring or parent
  end

  -- When a job ended, or when it was put if it has not ended; 0 if that is not known.
  local function when(jid, job)
    return number(job.ended or fields(jid, 'put_at') or 0) or 0
  end

  local function is_then(asked, jid, job)
    if asked.since == 0 and asked.till < 0 then return true end
    local at = when(jid, job)
    return at >= asked.since and (asked.till < 0 or at < asked.till)
  end

  function matches(asked, jid, job)
    return is_then(asked, jid, job) and (next(asked.states) == nil or asked.states[state_of(job)])
      and (asked.queue == '' or asked.queue == queue_of(job))
      and (asked.klass == '' or asked.klass == fields(jid, 'klass'))
      and (asked.tag == '' or call('ZSCORE', 'ql:t:' .. asked.tag, jid))
      and (not asked.group or asked.group == group_of(job))
      and (not asked.tracked or call('ZSCORE', 'ql:tracked', jid))
      and (asked.recurring == '' or asked.recurring == maker(jid))
  end
end

-- Some names of queues, of groups of failed jobs, or of counts of ended ones with these, and where to go on.
if command == 'taskvisor.scan' then
  local SCANS = {
    queues = {'ZSCAN', 'ql:queues'}, failures = {'SSCAN', 'ql:failures'}, ended = {'HSCAN', 'ql:taskvisor:ended'},
  }
  local scan, key = unpack(SCANS[take()])
  return call(scan, key, take(), 'COUNT', 1000)
end

-- How many entries some indices have, and how many that of all jobs has.
if command == 'taskvisor.sizes' then
  local jobs = 0
  for _, key in ipairs(args_from(3)) do jobs = jobs + call(key:sub(1, 5) == 'ql:f:' and 'LLEN' or 'ZCARD', key) end
  return {jobs, call('ZCARD', 'ql:taskvisor:jobs')}
end

-- Adds jobs of other programs to the index of all jobs, from other indices and some ids at a time. Gives where to go
-- on: in which index, and behind which job. With `gathers` also the places and ids of those that it has looked at.
if command == 'taskvisor.adopt' then
  -- The number of the first entry behind a job, those first that are longest in the index. A job that has left it went
  -- as a rule with all before it: so the first of all, and some may be looked at twice, but none is missed.
  local function behind(key, jid)
    local rank
    if jid == '' then return 0 end
    if key:sub(1, 5) == 'ql:f:' then
      rank = call('LPOS', key, jid, 'RANK', -1)
      rank = rank and call('LLEN', key) - 1 - rank
    else
      rank = call(key:sub(-5) == '-work' and 'ZREVRANK' or 'ZRANK', key, jid)
    end
    return rank and rank + 1 or 0
  end

  local function members(key, from, most)
    if key:sub(1, 5) == 'ql:f:' then
      local jids, oldest_first = call('LRANGE', key, -from - most, -1 - from), {}
      for i = #jids, 1, -1 do oldest_first[#oldest_first + 1] = jids[i] end
      return oldest_first
    end
    return call(key:sub(-5) == '-work' and 'ZREVRANGE' or 'ZRANGE', key, from, from + most - 1)
  end

  write_though_full()
  local first, after, most, gathers = tonumber(take()), take(), tonumber(take()), take() == '1'
  local keys, met = args_from(7), {}
  for at = first, #keys do
    local jids = members(keys[at], behind(keys[at], after), most)
    local places = #jids > 0 and call('ZMSCORE', 'ql:taskvisor:jobs', unpack(jids)) or {}
    for i, jid in ipairs(jids) do
      local place = places[i] or give_place(jid)
      if gathers and place then
        met[#met + 1] = place
        met[#met + 1] = jid
      end
    end
    if #jids == most then return {at, jids[#jids], met} end
    most, after = most - #jids, ''
  end
  return {0, '', met}
end

-- The jobs that match among the next ones below a place, newest first, as the values of fields.
if command == 'taskvisor.list' then
  local from, rows, most, names, asked = take(), tonumber(take()), tonumber(take()), take_list(), take_asked()
  local recurring = asked.recurring
  if recurring ~= '' and call('EXISTS', 'ql:taskvisor:recur:' .. recurring, 'ql:r:' .. recurring) == 0 then
    return no('recurring', recurring)
  end
  local looked, goes_on = stretch(from, rows, false)
  local found, last, bytes = {}, false, 0
  for _, one in ipairs(looked) do
    local jid, job = one.jid, begins(asked, one.jid) and read(one.jid, LOOKED_AT)
    last = one.place
    if not job then
      -- It is another's.
    elseif not job.state then
      call('ZREM', 'ql:taskvisor:jobs', jid)
    elseif matches(asked, jid, job) then
      local values = call('HMGET', 'ql:j:' .. jid, unpack(names))
      for _, value in ipairs(values) do bytes = bytes + (value and #value or 0) end
      -- The history of another program's job says when it was put.
      local first = not fields(jid, 'put_at') and call('LINDEX', 'ql:j:' .. jid .. '-history', 0)
      local key, data, exec = 'ql:j:' .. jid, false, false
      if call('HSTRLEN', key, 'data') <= 4096 then data, exec = fields(jid, 'data', 'exec') end
      found[#found + 1] = {jid, values, call('ZSCORE', 'ql:tracked', jid) and 1 or 0, first, data, exec}
      if #found >= most or bytes > 1048576 then
        goes_on = true
        break
      end
    end
  end
  return {goes_on and last or false, found}
end

-- How many of the next jobs below a place are tasks whose ids begin so, in one of the states, and where to go on. The
-- id of a task has four elements in base 32, the last one of 26 letters.
if command == 'taskvisor.count_tasks' then
  local from, rows, asked, count = take(), tonumber(take()), take_asked(), 0
  local looked, goes_on = stretch(from, rows, false)
  for _, one in ipairs(looked) do
    if begins(asked, one.jid) and #(one.jid:match('^%w*_%w*_%w*_(%w+)$') or '') == 26 then
      local job = read(one.jid, {'state', 'canceling', 'held'})
      if job.state and (next(asked.states) == nil or asked.states[state_of(job)]) then count = count + 1 end
    end
  end
  return {goes_on and looked[#looked].place or false, count}
end

-- The place of a job in the list.
if command == 'taskvisor.place' then
  local jid = take()
  return call('ZSCORE', 'ql:taskvisor:jobs', jid) or no('job', jid)
end
