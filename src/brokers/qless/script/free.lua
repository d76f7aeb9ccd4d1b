-- Jobs that are set free by the end of others, and jobs that are put right: what an error has kept from their lists.

-- If a job needs no other jobs any more, moves it where it was to go: to the waiting jobs, or to the delayed ones.
-- `done` is a job that it needs no more; then only if that was the last one. A job without a queue stays. It is added
-- to the new list before it leaves the old one, so an error does not lose it; `free_or_stray` has it tried again.
local function set_free(jid, when, done)
  local needs = 'ql:j:' .. jid .. '-dependencies'
  if done and call('SREM', needs, done) == 0 or call('EXISTS', needs) == 1 then return end
  local state, queue, priority, scheduled, order = fields(jid, 'state', 'queue', 'priority', 'scheduled', 'order')
  if state ~= 'depends' or not queue then return end
  local due = scheduled and number(scheduled)
  need_lists(queue, '-depends', due and '-scheduled' or '-work')
  if due then
    call('ZADD', 'ql:q:' .. queue .. '-scheduled', due, jid)
    call('HSET', 'ql:j:' .. jid, 'state', 'scheduled')
  else
    enter_work(jid, queue, priority, number(order) or when)
    call('HSET', 'ql:j:' .. jid, 'state', 'waiting')
  end
  if scheduled then call('HDEL', 'ql:j:' .. jid, 'scheduled') end
  call('ZREM', 'ql:q:' .. queue .. '-depends', jid)
  news('released', jid, queue, due and 'scheduled' or 'waiting')
  call('PUBLISH', 'ql:taskvisor', queue)
end

local function free_or_stray(jid, when, done)
  if not pcall(set_free, jid, when, done) then aside('SADD', STRAY, jid) end
end

-- Most dependents of an ended job that one call releases: no call may take long.
local FREED_AT_ONCE = 1000

-- Releases the jobs that waited for this one: the first part now, the others at later fetches. Those are kept under a
-- key of their own, because the job may be removed before the last of them is released. A broken one stays where it is,
-- and does not stop the others.
local function release_dependents(jid, when)
  local key, rest = 'ql:j:' .. jid .. '-dependents', 'ql:taskvisor:release:' .. jid
  local some = try('SPOP', key, FREED_AT_ONCE)
  if #some == FREED_AT_ONCE and call('EXISTS', key) == 1 then
    -- There may be some left of an earlier job of this id.
    if call('RENAMENX', key, rest) == 0 then
      call('SUNIONSTORE', rest, rest, key)
      call('UNLINK', key)
    end
    call('SADD', 'ql:taskvisor:releasing', jid)
  end
  for _, other in ipairs(some) do free_or_stray(other, when, jid) end
end

-- Releases the next part. Gives whether there may be more.
local function release_more()
  local jid = aside('SRANDMEMBER', 'ql:taskvisor:releasing')
  if not jid then return false end
  local some = try('SPOP', 'ql:taskvisor:release:' .. jid, FREED_AT_ONCE)
  if #some < FREED_AT_ONCE then call('SREM', 'ql:taskvisor:releasing', jid) end
  for _, other in ipairs(some) do free_or_stray(other, clock, jid) end
  return true
end

local put_right
do
  -- Removes from a job's needs those that are complete or gone.
  local function drop_met_needs(jid)
    local key = 'ql:j:' .. jid .. '-dependencies'
    for _, other in ipairs(call('SMEMBERS', key)) do
      local state = call('HGET', 'ql:j:' .. other, 'state')
      if not state or state == 'complete' then call('SREM', key, other) end
    end
  end

  -- Lists a failed job again. Whether it is listed takes long to see, so only strays come here.
  local function list_failure(jid, failure, held, ended)
    local group = (json_table(failure) or {}).group
    if type(group) ~= 'string' then return end
    need_kind('set', 'ql:failures')
    need_kind('list', 'ql:f:' .. group)
    need_kind('zset', 'ql:taskvisor:failed')
    call('LREM', 'ql:f:' .. group, 0, jid)
    add_failure(jid, group)
    if held == '0' then call('ZADD', 'ql:taskvisor:failed', (number(ended) or clock * 1000) / 1000, jid) end
  end

  -- Puts a job that is in no list back into that of its state: an error, or another program, has kept it from there. A
  -- job that needs no other any more is set free.
  function put_right(jid, is_stray)
    -- Where a job of a state is: the list of its queue to which it is added, and others in which it may be instead.
    local PLACES = {
      waiting = {'-work', '-scheduled', '-throttled'}, stalled = {'-work'}, throttled = {'-work', '-throttled'},
      scheduled = {'-scheduled', '-work'}, running = {'-locks'}, depends = {'-depends'},
    }
    local state, queue, priority, order, time, due, expires, ended, failure, held =
      fields(jid, 'state', 'queue', 'priority', 'order', 'time', 'due', 'expires', 'ended', 'failure', 'held')
    if state == 'failed' and is_stray then return list_failure(jid, failure, held, ended) end
    local index = state == 'complete' and 'ql:completed' or state == 'canceled' and 'ql:taskvisor:canceled'
    if index then
      if not call('ZSCORE', index, jid) then call('ZADD', index, (number(ended) or clock * 1000) / 1000, jid) end
      return
    end
    if not PLACES[state] or not queue or queue == '' then return end
    if state == 'depends' then
      drop_met_needs(jid)
      set_free(jid, clock)
      state = fields(jid, 'state')
    end
    for _, ending in ipairs(PLACES[state]) do
      if call('ZSCORE', 'ql:q:' .. queue .. ending, jid) then return end
    end
    local key = 'ql:q:' .. queue .. PLACES[state][1]
    if state == 'running' then
      call('ZADD', key, number(expires) or clock, jid)
    elseif state == 'scheduled' then
      call('ZADD', key, (number(due) or clock * 1000) / 1000, jid)
    elseif state == 'depends' then
      call('ZADD', key, now, jid)
    else
      enter_work(jid, queue, priority, number(order) or number(time) or clock)
    end
    call('PUBLISH', 'ql:taskvisor', queue)
  end
end

-- Puts some of the jobs right whose lists could not be written. Gives whether some are left.
local function put_strays_right()
  local some = aside('SRANDMEMBER', STRAY, 100) or {}
  for _, jid in ipairs(some) do
    odd.latest = nil
    if pcall(put_right, jid, true) then
      call('SREM', STRAY, jid)
    elseif odd.latest then
      note_odd(odd.latest[1], odd.latest[2], try('HGET', 'ql:j:' .. jid, 'queue'), jid)
    end
  end
  return #some > 0 and call('EXISTS', STRAY) == 1
end

-- Makes a job wait for those of `needs` that are other jobs, exist and are not complete. Gives whether there is any.
local function depend(jid, needs)
  local any = false
  for _, other in ipairs(needs) do
    local state, key = try('HGET', 'ql:j:' .. other, 'state'), 'ql:j:' .. other .. '-dependents'
    if type(state) == 'string' and state ~= 'complete' and other ~= jid then
      -- A key of another type does not belong to a job.
      if type(try('SADD', key, jid)) == 'table' then
        call('DEL', key)
        call('SADD', key, jid)
      end
      call('SADD', 'ql:j:' .. jid .. '-dependencies', other)
      any = true
    end
  end
  return any
end
