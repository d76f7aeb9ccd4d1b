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

local matches, stretch, indices, members, size_of
if command == 'taskvisor.list' or command == 'taskvisor.count_tasks' or command == 'taskvisor.sweep'
  or command == 'taskvisor.adopt' then
  -- Indices have orders of their own: of no more jobs than this all are gathered. Else the way is through all jobs.
  local FEW = 2000
  local OF_QUEUES = {
    waiting = {'-work', '-throttled'}, delayed = {'-scheduled'}, running = {'-locks'}, canceling = {'-locks'},
    depends = {'-depends'},
  }
  local OF_ALL = {complete = 'ql:completed', held = 'ql:f:held', canceled = 'ql:taskvisor:canceled'}
  local ANY = {
    waiting = true, delayed = true, running = true, depends = true, complete = true, failed = true, held = true,
    canceled = true,
  }

  -- Adds the keys of the indices for jobs of a state, each key once.
  local function add_indices(state, queues, keys, known)
    local function add(key)
      if not known[key] then keys[#keys + 1] = key end
      known[key] = true
    end
    if OF_ALL[state] then
      add(OF_ALL[state])
    elseif state == 'failed' then
      for _, group in ipairs(call('SMEMBERS', 'ql:failures')) do add('ql:f:' .. group) end
    else
      for _, queue in ipairs(queues) do
        for _, ending in ipairs(OF_QUEUES[state]) do add('ql:q:' .. queue .. ending) end
      end
    end
  end

  -- The indices that have all jobs that the filter can match, and whether they have fewer than all jobs.
  function indices(asked)
    if asked.tag ~= '' then return {'ql:t:' .. asked.tag}, true end
    if asked.group then return {'ql:f:' .. asked.group, 'ql:f:held'}, true end
    if asked.tracked then return {'ql:tracked'}, true end
    local has_states = next(asked.states) ~= nil
    local keys, known, queues = {}, {}, asked.queue ~= '' and {asked.queue} or call('ZRANGE', 'ql:queues', 0, -1)
    for state in pairs(has_states and asked.states or ANY) do add_indices(state, queues, keys, known) end
    table.sort(keys)
    return keys, has_states
  end

  -- Number of jobs in an index.
  function size_of(key)
    return call(key:sub(1, 5) == 'ql:f:' and 'LLEN' or 'ZCARD', key)
  end

  -- Some jobs of an index, those that are longest in it first.
  function members(key, from, most)
    if key:sub(1, 5) == 'ql:f:' then
      local jids, oldest_first = call('LRANGE', key, -from - most, -1 - from), {}
      for i = #jids, 1, -1 do oldest_first[#oldest_first + 1] = jids[i] end
      return oldest_first
    end
    return call(key:sub(-5) == '-work' and 'ZREVRANGE' or 'ZRANGE', key, from, from + most - 1)
  end

  -- All jobs of some indices, if they are few.
  local function gather(keys)
    local count, jids, seen, found = 0, {}, {}, {}
    for _, key in ipairs(keys) do
      count = count + size_of(key)
      if count > FEW then return end
    end
    for _, key in ipairs(keys) do
      for _, jid in ipairs(members(key, 0, FEW)) do
        if not seen[jid] then jids[#jids + 1] = jid end
        seen[jid] = true
      end
    end
    for from = 0, #jids - 1, 1000 do
      local places = call('ZMSCORE', 'ql:taskvisor:jobs', unpack(jids, from + 1, math.min(from + 1000, #jids)))
      for i, place in ipairs(places) do
        local jid = jids[from + i]
        if place then found[#found + 1] = {jid = jid, place = place, at = number(place)} end
      end
    end
    return found
  end

  local function walk(from, rows, is_up)
    local name, to = is_up and 'ZRANGEBYSCORE' or 'ZREVRANGEBYSCORE', is_up and '+inf' or '-inf'
    local found, flat = {}, call(name, 'ql:taskvisor:jobs', '(' .. from, to, 'WITHSCORES', 'LIMIT', 0, rows)
    for i = 1, #flat, 2 do found[#found + 1] = {jid = flat[i], place = flat[i + 1]} end
    return found
  end

  -- The next jobs behind a place that the filter may match, and whether there may be more.
  function stretch(asked, from, rows, is_up)
    local keys, are_some = indices(asked)
    local all, found, behind = are_some and gather(keys), {}, tonumber(from)
    if not all then
      found = walk(from, rows, is_up)
      return found, #found == rows
    end
    local function is_before(one, other)
      if is_up then return one < other end
      return one > other
    end
    table.sort(all, function(one, other) return is_before(one.at, other.at) end)
    for _, one in ipairs(all) do
      if #found < rows and is_before(behind, one.at) then found[#found + 1] = one end
    end
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

-- Adds jobs of other programs to the index of all jobs, from other indices and some ids at a time; gives where to go
-- on. With `is_quick`, only if there are more jobs than entries: that is quick to see, unless there are still entries
-- of jobs that other programs have removed.
if command == 'taskvisor.adopt' then
  -- Most indices that one call looks at: no call may take long.
  local KEYS_AT_ONCE = 5000
  write_though_full()
  local last, from, most, is_quick, asked = take(), tonumber(take()), tonumber(take()), take() == '1', take_asked()
  local keys, are_some = indices(asked)
  if is_quick and not are_some and asked.queue == '' then
    local jobs = 0
    for _, key in ipairs(keys) do jobs = jobs + size_of(key) end
    if jobs <= call('ZCARD', 'ql:taskvisor:jobs') then return {false, 0} end
  end
  local looked = 0
  for _, key in ipairs(keys) do
    if key >= last then
      looked = looked + 1
      if looked > KEYS_AT_ONCE then return {key, 0} end
      local jids = members(key, key == last and from or 0, most)
      local places = #jids > 0 and call('ZMSCORE', 'ql:taskvisor:jobs', unpack(jids)) or {}
      for i, jid in ipairs(jids) do
        if not places[i] then give_place(jid) end
      end
      if #jids == most then return {key, (key == last and from or 0) + most} end
      most = most - #jids
    end
  end
  return {false, 0}
end

-- The jobs that match among the next ones below a place, newest first, as the values of fields.
if command == 'taskvisor.list' then
  local from, rows, most, names, asked = take(), tonumber(take()), tonumber(take()), take_list(), take_asked()
  local recurring = asked.recurring
  if recurring ~= '' and call('EXISTS', 'ql:taskvisor:recur:' .. recurring, 'ql:r:' .. recurring) == 0 then
    return no('recurring', recurring)
  end
  local looked, goes_on = stretch(asked, from, rows, false)
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
  local looked, goes_on = stretch(asked, from, rows, false)
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
