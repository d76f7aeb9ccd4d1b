-- Periodic work: registers workers, enqueues due jobs, repairs what dead workers have left.

-- A scheduler enqueues due jobs once a second. After this number of seconds a due job counts as forgotten.
local OVERDUE = 10

-- Registers workers, each for `ttl` seconds: RQ shows one job for each. The first call removes what an earlier worker
-- of that name has left.
local function sign()
  local ttl, now, common = number(), stamp(NOW), list()
  for _ = 1, number() do
    local worker, is_first, queues = arg(), arg() == 'first', list()
    local name = key('worker', worker)
    if is_first then
      for _, member in ipairs(call('SMEMBERS', name .. ':executions')) do
        if call('HEXISTS', HELD, member) == 0 then call('SREM', name .. ':executions', member) end
      end
    end
    if is_first or call('HEXISTS', name, 'birth') == 0 then
      call('HDEL', name, 'death', 'shutdown_requested_date')
      call('HSET', name, 'birth', now, unpack(common))
      call('HSETNX', name, 'state', 'idle')
    end
    call('HSET', name, 'last_heartbeat', now, 'queues', table.concat(queues, ','))
    call('EXPIRE', name, ttl)
    if call('TTL', name .. ':executions') < ttl then call('EXPIRE', name .. ':executions', ttl) end
    call('SADD', key('workers'), name)
    for _, queue in ipairs(queues) do call('SADD', key('workers', queue), name) end
  end
end

-- Removes workers that stop cleanly.
local function leave()
  for _, worker in ipairs(list()) do
    local name = key('worker', worker)
    local queues = call('HGET', name, 'queues') or ''
    call('SREM', key('workers'), name)
    for queue in string.gmatch(queues, '[^,]+') do call('SREM', key('workers', queue), name) end
    if call('EXISTS', name) == 1 then
      call('HSET', name, 'death', stamp(NOW), 'state', 'idle')
      call('EXPIRE', name, 60)
    end
    call('DEL', name .. ':executions')
  end
  local scheduler = arg()
  for _, queue in ipairs(list()) do
    if call('GET', key('scheduler-lock', queue)) == scheduler then call('DEL', key('scheduler-lock', queue)) end
  end
  call('DEL', key('scheduler', scheduler))
end

-- What failed of the chores: words for people.
local wrong = {}

-- Does one of many chores. If it fails, that is noted, and the others are done.
local function chore(act, ...)
  local said = alone(act, ...)
  if said then wrong[#wrong + 1] = string.sub(said, #'wrong: ' + 1) end
end

-- It leaves the delayed jobs last, so an error before that loses nothing.
local function put_one(queue, id)
  if call('HGET', job_key(id), 'status') == 'scheduled' then
    enqueue(queue, id, field(id, 'enqueue_at_front') == '1')
  end
  call('ZREM', key('scheduled', queue), id)
end

-- Enqueues the due jobs of a queue, unless another scheduler does. One that keeps the lock and does nothing is named.
local function put_due(queue, owner)
  local lock = key('scheduler-lock', queue)
  local has = call('GET', lock)
  if has and has ~= owner then
    local due = call('ZRANGEBYSCORE', key('scheduled', queue), 0, SECOND - OVERDUE, 'LIMIT', 0, 1)[1]
    if due then
      wrong[#wrong + 1] = "delayed jobs of queue '" .. queue .. "' are overdue, such as '" .. due
        .. "', as the scheduler '" .. has .. "' keeps the lock " .. lock
        .. ' and does not put them: if that one is gone, `redis-cli DEL ' .. lock .. '` lets others'
    end
    return
  end
  if not fits(key('queue', queue), 'list') then return end
  call('SET', lock, owner, 'EX', 61)
  for _, id in ipairs(call('ZRANGEBYSCORE', key('scheduled', queue), 0, SECOND, 'LIMIT', 0, 1000)) do
    chore(put_one, queue, id)
  end
end

local function is_queued(queue, id)
  return call('LPOS', key('queue', queue), id) or call('LPOS', key('queue', queue, 'intermediate'), id)
end

-- Puts a job back that its supervisor lost, and counts that: a job that takes its host down with it fails in the end.
local function interrupt(id, execution, held, most, exception)
  check_end(held.queue, id, execution, held.worker)
  local attempt, canceled = attempt_of(id, execution, held), field(id, 'taskvisor_canceled')
  if canceled then
    note_attempt(id, attempt, fail(id, execution, held, stopped(canceled)), INTERRUPTED)
  elseif call('HINCRBY', job_key(id), 'taskvisor_interrupted', 1) < most then
    give_back(held.queue, id, execution, held.worker)
    note_attempt(id, attempt, 'waiting', INTERRUPTED)
  elseif is_order(id) then
    end_order(held.queue, id, execution, held.worker)
  else
    order_end(held.queue, id, { kind = 'abandoned' }, exception, true)
    count(held.worker, 'failed_job_count', id)
    bury(id, execution, held, 'failed', 2, 'exc_string', exception)
    note_attempt(id, attempt, 'failed', INTERRUPTED)
  end
end

-- Handles an expired execution. Those of RQ's own workers go to the caller, who has RQ's texts for them.
local function rescue_one(queue, member, most, exception, abandoned)
  local id, execution = split(member)
  local status = id and call('HGET', job_key(id), 'status')
  if not status or runs(queue, id, execution) then
    call('ZREM', key('wip', queue), member)
    if id then forget(queue, id, execution) end
  elseif status == 'started' then
    local held = holder(id, execution)
    if held then
      interrupt(id, execution, held, most, exception)
    else
      abandoned[#abandoned + 1] = { member, queue }
    end
  else
    check_way_back(queue, id, execution)
    forget(queue, id, execution)
    if status == 'queued' and not is_queued(queue, id) then push(queue, id, true) end
  end
end

local function rescue(queue, most, exception, abandoned)
  for _, member in ipairs(call('ZRANGEBYSCORE', key('wip', queue), 0, NOW, 'LIMIT', 0, 100)) do
    chore(rescue_one, queue, member, most, exception, abandoned)
  end
end

-- Runs the periodic work. After an outage (`settling`) it expires no execution, so that its holder can renew first.
-- Returns the abandoned jobs, the first error, and the mark of these data.
local function tick()
  local owner, most, exception, abandoned, queues = arg(), number(), arg(), {}, list()
  local is_settling, mark = arg() == 'settling', key('taskvisor', 'mark')
  call('SET', mark, ARGV[2], 'NX')
  for _, queue in ipairs(queues) do
    if owner ~= '' then chore(put_due, queue, owner) end
    if not is_settling then chore(rescue, queue, most, exception, abandoned) end
  end
  if owner ~= '' then
    local name = key('scheduler', owner)
    call('HSET', name, 'name', owner, 'hostname', arg(), 'pid', arg(), 'queues', table.concat(queues, ','),
      'last_heartbeat', stamp(NOW))
    call('HSETNX', name, 'created_at', stamp(NOW))
    call('EXPIRE', name, 61)
  end
  return { abandoned, wrong[1] or false, call('GET', mark) }
end

-- Ends an expired execution of a worker of RQ as RQ does, unless it has changed meanwhile.
local function abandon()
  local member, queue, said = arg(), arg(), { exception = arg(), callback = { kind = 'abandoned' } }
  local id, execution = split(member)
  local ends = call('ZSCORE', key('wip', queue), member)
  local is_over = ends and tonumber(ends) <= NOW and not runs(queue, id, execution)
  if is_over and call('HGET', job_key(id), 'status') == 'started' then
    check_end(queue, id, execution)
    fail(id, execution, { worker = call('HGET', key('execution', member), 'worker_name') or '', queue = queue }, said)
  end
end

-- Puts a job back after a minute that a worker of RQ took out of the queue and never began.
local function heal(queue)
  local name = key('queue', queue, 'intermediate')
  for _, id in ipairs(call('LRANGE', name, 0, 999)) do
    local seen, status = name .. ':first_seen:' .. id, call('HGET', job_key(id), 'status')
    if not status then
      call('LREM', name, 1, id)
    elseif not runs(queue, id) and not call('SET', seen, NOW, 'NX', 'EX', 86400)
      and NOW - tonumber(call('GET', seen)) > 60 then
      check_way_back(queue, id)
      call('LREM', name, 1, id)
      call('DEL', seen)
      if status == 'queued' and not is_queued(queue, id) then push(queue, id, true) end
    end
  end
  for _, id in ipairs(call('ZRANGE', key('ready', queue), 0, 999)) do
    check_way_back(queue, id)
    call('ZREM', key('ready', queue), id)
    if call('HGET', job_key(id), 'status') == 'ready_to_enqueue' then
      enqueue(queue, id, field(id, 'enqueue_at_front') == '1')
    end
  end
end

local function tidy_groups()
  if not call('SET', key('clean_groups'), 1, 'NX', 'EX', 599) then return end
  for _, group in ipairs(call('SMEMBERS', key('groups'))) do
    for _, id in ipairs(call('SMEMBERS', key('group', group))) do
      if call('EXISTS', job_key(id)) == 0 then call('SREM', key('group', group), id) end
    end
    if call('EXISTS', key('group', group)) == 0 then call('SREM', key('groups'), group) end
  end
end

-- Enters held executions again whose registry was removed, so that they are rescued if their supervisor is dead too.
local function tidy_held()
  local cursor = '0'
  repeat
    local answer = call('HSCAN', HELD, cursor, 'COUNT', 1000)
    cursor = answer[1]
    for i = 1, #answer[2], 2 do
      local held, id, execution = decoded(answer[2][i + 1]), split(answer[2][i])
      if held and id then chore(function() owns(id, execution, held) end) end
    end
  until cursor == '0'
end

-- RQ's own cleaning, once for all supervisors and workers that do it, and what RQ itself leaves behind.
local function tidy()
  local is_full = arg() == 'full'
  for _, queue in ipairs(list()) do
    chore(heal, queue)
    if is_full and call('SET', key('clean_registries', queue), 1, 'NX', 'EX', 899) then
      call('ZREMRANGEBYSCORE', key('finished', queue), 0, SECOND)
      call('ZREMRANGEBYSCORE', key('failed', queue), 0, SECOND)
      for _, worker in ipairs(call('SMEMBERS', key('workers', queue))) do
        if call('EXISTS', worker) == 0 then
          call('SREM', key('workers', queue), worker)
          call('SREM', key('workers'), worker)
        end
      end
      call('DEL', key('clean_registries', queue))
    end
  end
  chore(tidy_limits)
  chore(tidy_held)
  if is_full then chore(tidy_groups) end
  return wrong[1] or false
end

-- The jobs that an instance holds, as {job, execution, life}.
local function held_by()
  local all = held_of(arg())
  for _, one in ipairs(all) do one[4] = nil end
  return all
end

-- Releases the jobs that an instance held when it died, except those that it still runs. One that cannot be released
-- waits for the end of its lease.
local function recover()
  local all, released, few, most, exception = held_of(arg()), 0, number(), number(), arg()
  local kept = {}
  for _, member in ipairs(list()) do kept[member] = true end
  local given = {}
  for _, one in ipairs(all) do
    if not kept[one[1] .. ':' .. one[2]] then given[#given + 1] = one end
  end
  local function release_one(id, execution, entry)
    if owns(id, execution, entry) and call('HGET', job_key(id), 'status') == 'started' then
      interrupt(id, execution, entry, #given == 1 and few or most, exception)
      released = released + 1
    else
      forget(entry.queue, id, execution, entry.worker)
    end
  end
  for _, one in ipairs(given) do alone(release_one, one[1], one[2], one[4]) end
  return released
end
