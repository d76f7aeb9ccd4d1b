-- Puts jobs, all or none.

-- A refusal for the broker to word: the kind, and what its text needs.
local function no(...)
  return {'no', ...}
end

-- Most jobs to look at for a circle: no call may take long.
local MOST_ON_THE_WAY = 20000
local TOO_ENTANGLED = 'more than 20000 jobs come before it and others wait for it: nobody looks whether they wait for '
  .. 'each other in a circle; have it depend on fewer'

-- The jobs on the way from a job back to itself, if it were to need `needs`; nil if there is no such circle, and false
-- if there are too many jobs to tell.
local function circle(jid, needs)
  local came_from, open = {}, {}
  local function look_at(others, by)
    for _, other in ipairs(others) do
      if not came_from[other] then
        came_from[other] = by
        open[#open + 1] = other
      end
    end
  end
  look_at(needs, jid)
  -- A job without dependents is in no circle.
  local at, is_needed = 1, call('EXISTS', 'ql:j:' .. jid .. '-dependents') == 1
  while is_needed and open[at] and not came_from[jid] do
    if at > MOST_ON_THE_WAY then return false end
    look_at(call('SMEMBERS', 'ql:j:' .. open[at] .. '-dependencies'), open[at])
    at = at + 1
  end
  if not came_from[jid] then return end
  local back, way, step = {jid}, {}, came_from[jid]
  while step ~= jid do
    back[#back + 1] = step
    step = came_from[step]
  end
  back[#back + 1] = jid
  for i = #back, 1, -1 do way[#way + 1] = back[i] end
  return way
end

-- The first of some jobs that does not exist.
local function missing(needs)
  for _, need in ipairs(needs) do
    if call('EXISTS', 'ql:j:' .. need) == 0 then return need end
  end
end

-- The place of a new job among others of its priority, as a time. Each job has a time of its own, even within one call,
-- and times differ by enough for scores to tell them apart (53 bits for a priority and ten thousand years).
local orders = {}
local function next_order(priority)
  local order = orders[priority]
  if not order then
    local last = number(call('HGET', 'ql:taskvisor:order', priority) or 0) or 0
    order = {last = last, step = math.max(0.000001, math.abs(priority) * 0.000004)}
    orders[priority] = order
  end
  order.last = math.max(clock, order.last + order.step)
  return order.last
end

-- When a new priority comes, removes those not used for a minute: by then no clock is behind their times.
local function keep_orders()
  local key = 'ql:taskvisor:order'
  for priority, order in pairs(orders) do
    if call('HSET', key, priority, format('%.6f', order.last)) == 1 then
      local some = call('HRANDFIELD', key, 10, 'WITHVALUES')
      for i = 1, #some, 2 do
        if (number(some[i + 1]) or 0) < clock - 60 then call('HDEL', key, some[i]) end
      end
    end
  end
end

-- Makes a job wait, or delays it, or makes it wait for others, and sets more fields of its hash; gives its state.
local function place(jid, queue, priority, order, delay, waits, ...)
  local due = delay > 0 and format('%.6f', clock + delay)
  local key = 'ql:j:' .. jid
  if waits then
    call('HSET', key, 'state', 'depends', ...)
    call('ZADD', 'ql:q:' .. queue .. '-depends', now, jid)
    if due then call('HSET', key, 'scheduled', due, 'due', format('%.0f', due * 1000)) end
    return 'depends'
  elseif due then
    call('HSET', key, 'state', 'scheduled', 'due', format('%.0f', due * 1000), ...)
    call('ZADD', 'ql:q:' .. queue .. '-scheduled', due, jid)
    return 'delayed'
  end
  call('HSET', key, 'state', 'waiting', ...)
  enter_work(jid, queue, priority, order)
  return 'waiting'
end

-- A field of those that qless does not have, as it was brought with a job.
local function of_more(job, name)
  for i = 1, #job.more, 2 do
    if job.more[i] == name then return job.more[i + 1] end
  end
end

-- Writes a job that was checked.
local function insert(job)
  local key, order = 'ql:j:' .. job.jid, next_order(job.priority)
  -- An earlier job with this id may still be in the lists of ended jobs.
  call('ZREM', 'ql:completed', job.jid)
  call('DEL', key .. '-history', key .. '-dependencies')
  tell_put(job.jid, job.queue)
  if job.tags ~= '[]' then tag(job.jid, json_names(job.tags) or {}, now) end
  history(job.jid, clock, 'put', '{"q":' .. encode(job.queue) .. '}')
  know_queue(job.queue)
  local state = place(job.jid, job.queue, job.priority, order, job.delay, job.waits,
    'jid', job.jid, 'klass', job.klass, 'data', job.data, 'priority', job.priority, 'tags', job.tags,
    'worker', '', 'expires', '0', 'queue', job.queue, 'retries', job.retries, 'remaining', job.retries, 'time', now,
    'order', format('%.6f', order), 'attempt', '0', 'put_at', millis, unpack(job.more))
  if of_more(job, 'begin_within') then expect_begin(job.jid) end
  news('put', job.jid, job.queue, state)
  return state
end

-- Takes a job from the arguments.
local function take_job()
  return {
    jid = take(), exists = take(), queue = take(), klass = take(), data = take(), priority = take(),
    delay = number(take()), tags = take(), retries = take(), more = take_list(), needs = take_list(),
  }
end

-- Whether an existing job was made by this same put, whose reply was lost: it has the same token.
local function is_own(job)
  local token = of_more(job, 'token')
  return token and call('HGET', 'ql:j:' .. job.jid, 'token') == token
end

local function odd_queue(jobs)
  local seen = {}
  for _, job in ipairs(jobs) do
    local spoiled, has = nil, nil
    if not seen[job.queue] then spoiled, has = spoiled_key('ql:q:' .. job.queue) end
    if spoiled then return no('kind', spoiled, has) end
    seen[job.queue] = true
  end
end

if command == 'taskvisor.put' then
  local by, jobs, fresh = take(), {}, {}
  for i = 1, tonumber(take()) do
    local job = take_job()
    if by ~= '' then
      job.more[#job.more + 1] = 'put_by'
      job.more[#job.more + 1] = by
    end
    jobs[i] = job
    job.is_there = fresh[job.jid] or call('EXISTS', 'ql:j:' .. job.jid) == 1
    local refusal = job.is_there and not fresh[job.jid] and odd_job(job.jid)
    if refusal then return refusal end
    if job.is_there and job.exists == 'refuse' and (fresh[job.jid] or not is_own(job)) then
      return no('exists', job.jid)
    end
    fresh[job.jid] = true
  end
  for _, job in ipairs(jobs) do
    for _, need in ipairs(job.is_there and {} or job.needs) do
      local refusal = odd_job(need)
      if refusal then return refusal end
      local state = fields(need, 'state')
      if not state and not fresh[need] then return no('need', need) end
      if state ~= 'complete' then job.waits = true end
    end
  end
  local refusal = odd_shared_key() or odd_queue(jobs)
  if refusal then return refusal end
  local new, states, places = 0, {}, {}
  for _, job in ipairs(jobs) do new = new + (job.is_there and 0 or 1) end
  -- The first write must be one that a full Redis refuses: after a removal it would let all others pass.
  local last = new > 0 and call('INCRBY', 'ql:taskvisor:place', new)
  for i, job in ipairs(jobs) do
    states[i] = job.is_there and 'there' or insert(job)
    if not job.is_there then
      places[#places + 1] = last - new + #places / 2 + 1
      places[#places + 1] = job.jid
    end
  end
  call_many('ZADD', 'ql:taskvisor:jobs', places)
  -- A job may need another one that comes later in the batch.
  for _, job in ipairs(jobs) do
    if job.waits and not job.is_there then depend(job.jid, job.needs) end
  end
  keep_orders()
  return states
end
