-- Changes that people make to a job.
--
-- All is in a block: Lua allows 200 local names at a time.

do

local function tell_edited(jid, what)
  local job = read(jid, LOOKED_AT)
  news('edited', jid, queue_of(job), state_of(job), what)
end

-- Adds a change to a job's history, and publishes it.
local function note_edit(jid, by, what)
  tell_edited(jid, what)
  note(jid, '{"at":' .. millis .. ',"edited":{"by":' .. encode(by) .. ',"what":' .. encode(what) .. '}}')
end

-- Adds a job to the waiting ones of its new priority, in the order in which it was put. Scores of high priorities are
-- too coarse to tell near times apart: then the index of all jobs decides.
local function enter_by_place(jid, queue, priority, when)
  local work, step = 'ql:q:' .. queue .. '-work', math.max(0.000001, math.abs(priority) * 0.000004)
  local place = number(call('ZSCORE', 'ql:taskvisor:jobs', jid) or 0)
  for _ = 1, 10 do
    enter_work(jid, queue, priority, when)
    local score = call('ZSCORE', work, jid)
    local equals = call('ZRANGEBYSCORE', work, score, score, 'LIMIT', 0, 2)
    local other = equals[1] == jid and equals[2] or equals[1]
    if #equals < 2 then return end
    local is_before = place < (number(call('ZSCORE', 'ql:taskvisor:jobs', other) or 0))
    when = when + (is_before and -step or step)
  end
end

-- Among jobs of the same priority, its place is that of its put.
if command == 'taskvisor.prioritize' then
  local jid, by, priority = take(), take(), take()
  local job = read(jid, {'state', 'queue', 'priority', 'order', 'time', 'canceling', 'held'})
  if not job.state then return no('job', jid) end
  local state = state_of(job)
  if state == 'complete' or state == 'failed' or state == 'held' or state == 'canceled' then
    return no('state', jid, state)
  end
  local before = number(job.priority or 0) or 0
  if before == number(priority) then return 1 end
  call('HSET', 'ql:j:' .. jid, 'priority', priority)
  if call('ZSCORE', 'ql:q:' .. (job.queue or '') .. '-work', jid) then
    enter_by_place(jid, job.queue, number(priority), number(job.order or job.time) or clock)
  end
  note_edit(jid, by, 'priority ' .. priority .. '; it was ' .. before)
  return 1
end

-- Changes the data of a running job.
if command == 'taskvisor.set_data' then
  local jid, hold, data = take(), take(), take()
  local job = read(jid, {'state', 'queue', 'canceling', 'held', 'worker', 'held_by', 'hold', 'exec'})
  if not job.state then return no('job', jid) end
  if state_of(job) ~= 'running' then return no('state', jid, state_of(job)) end
  if not is_held(job) or job.hold ~= hold then return 'lost' end
  if job.exec == '1' then return 'program' end
  call('HSET', 'ql:j:' .. jid, 'data', data)
  return 1
end

-- The tags of a job as stored.
if command == 'taskvisor.tags' then
  local jid = take()
  local state, tags = fields(jid, 'state', 'tags')
  return state and {tags or ''} or no('job', jid)
end

-- Sets the tags of a job, unless they were changed since they were read.
if command == 'taskvisor.tag' then
  local jid, by, before, tags, what = take(), take(), take(), take(), take()
  local state, has = fields(jid, 'state', 'tags')
  if not state then return no('job', jid) end
  if (has or '') ~= before then return 0 end
  local had, has_now, kept, gone, fresh = json_names(before) or {}, json_names(tags), {}, {}, {}
  for _, name in ipairs(has_now) do kept[name] = true end
  for _, name in ipairs(had) do
    if not kept[name] then gone[#gone + 1] = name end
    kept[name] = nil
  end
  for _, name in ipairs(has_now) do
    if kept[name] then fresh[#fresh + 1] = name end
  end
  call('HSET', 'ql:j:' .. jid, 'tags', #has_now == 0 and '{}' or tags)
  untag(jid, gone)
  tag(jid, fresh, now)
  note_edit(jid, by, what)
  return 1
end

if command == 'taskvisor.track' or command == 'taskvisor.untrack' then
  local jid = take()
  if not fields(jid, 'state') then return no('job', jid) end
  if command == 'taskvisor.track' then
    call('ZADD', 'ql:tracked', 'NX', now, jid)
    call('PUBLISH', 'ql:track', jid)
    tell_edited(jid, 'tracked')
  else
    call('ZREM', 'ql:tracked', jid)
    call('PUBLISH', 'ql:untrack', jid)
    tell_edited(jid, 'not tracked any more')
  end
  return 1
end

-- Removes a job that has ended and for which no job waits.
if command == 'taskvisor.discard' then
  local jid = take()
  local job = read(jid, LOOKED_AT)
  if not job.state then return no('job', jid) end
  local state = state_of(job)
  if not ENDED[state] then return no('state', jid, state) end
  local others = dependents(jid)
  if #others > 0 then
    local refusal = no('needed', jid)
    for _, other in ipairs(others) do refusal[#refusal + 1] = other end
    return refusal
  end
  remove(jid, job)
  return 1
end

-- Makes a job wait for others; gives its state.
if command == 'taskvisor.depend_on' then
  local jid, by, needs = take(), take(), take_list()
  local job = read(jid, LOOKED_AT)
  if not job.state then return no('job', jid) end
  local state = state_of(job)
  if state ~= 'waiting' and state ~= 'delayed' and state ~= 'depends' then return no('state', jid, state) end
  local lost = missing(needs)
  if lost then return no('need', lost) end
  local way = circle(jid, needs)
  if way == false then return no('refused', "job '" .. jid .. "' cannot wait for these: " .. TOO_ENTANGLED) end
  if way then
    local refusal = no('circle')
    for _, name in ipairs(way) do refusal[#refusal + 1] = name end
    return refusal
  end
  need_lists(job.queue or '', '-work', '-locks', '-scheduled', '-depends', '-throttled')
  if not depend(jid, needs) then return state end
  if state ~= 'depends' then
    local key = 'ql:q:' .. job.queue
    local due = call('ZSCORE', key .. '-scheduled', jid)
    leave(jid, job.queue)
    call('ZADD', key .. '-depends', now, jid)
    call('HSET', 'ql:j:' .. jid, 'state', 'depends')
    if due then call('HSET', 'ql:j:' .. jid, 'scheduled', due) end
  end
  note_edit(jid, by, 'it depends on ' .. table.concat(needs, ', '))
  return 'depends'
end

-- Moves a job that waited for others to where it was to go; gives its state.
local function let_off(jid, job)
  local key, due = 'ql:j:' .. jid, number(fields(jid, 'scheduled') or 0) or 0
  call('ZREM', 'ql:q:' .. job.queue .. '-depends', jid)
  call('HDEL', key, 'scheduled')
  if due > clock then
    call('ZADD', 'ql:q:' .. job.queue .. '-scheduled', format('%.6f', due), jid)
    call('HSET', key, 'state', 'scheduled')
    return 'delayed'
  end
  enter_work(jid, job.queue, job.priority, number(job.order) or clock)
  call('HSET', key, 'state', 'waiting', 'time', now)
  call('HDEL', key, 'due')
  wake(job.queue)
  return 'waiting'
end

-- Removes some of a job's needs, or all of them; gives its state.
if command == 'taskvisor.depend_off' then
  local jid, by, all, needs = take(), take(), take() == 'all', take_list()
  local job = read(jid, LOOKED_AT)
  if not job.state then return no('job', jid) end
  if job.state ~= 'depends' then return no('state', jid, state_of(job)) end
  local lost = missing(needs)
  if lost then return no('job', lost) end
  need_lists(job.queue or '', '-work', '-scheduled', '-depends')
  local key = 'ql:j:' .. jid .. '-dependencies'
  for _, other in ipairs(all and call('SMEMBERS', key) or needs) do
    call('SREM', 'ql:j:' .. other .. '-dependents', jid)
    call('SREM', key, other)
  end
  local what = all and 'all others' or table.concat(needs, ', ')
  note_edit(jid, by, 'it does not depend on ' .. what .. ' any more')
  if call('EXISTS', key) == 1 then return 'depends' end
  local becomes = let_off(jid, job)
  news('released', jid, queue_of(job), becomes)
  return becomes
end

end
