-- Gives jobs to workers, and keeps their leases.
local DEEPEST = 100

local function kind(name) return call('TYPE', name)['ok'] end

-- Whether a key is of that kind, or does not exist.
local function fits(name, wanted)
  local is = kind(name)
  return is == wanted or is == 'none'
end

-- The next job of a queue that can run, from the place `from` on; then that place. Entries that are no jobs are
-- removed, and so is a second entry of a running job. A job that was put again while it runs waits for its end.
-- `wanted` has the ids that may be taken; nil = all.
local function next_of(queue, from, odd, wanted)
  local name = key('queue', queue)
  while from < DEEPEST do
    local id = call('LINDEX', name, from)
    if not id then break end
    local is, executions = kind(job_key(id)), kind(key('executions', id))
    if is == 'hash' and wanted and not wanted[id] then
      from = from + 1
    elseif is == 'hash' and (executions == 'zset' or executions == 'none') then
      if executions == 'none' or not runs(queue, id) then return id, from end
      if call('HGET', job_key(id), 'status') == 'started' then
        call('LREM', name, 1, id)
      else
        from = from + 1
      end
    else
      call('LREM', name, 1, id)
      if is ~= 'none' then odd[#odd + 1] = job_key(id) end
    end
  end
  return nil, from
end

-- Raises an error before anything is written if another program uses a key that a claim writes.
local function check(worker)
  call('HLEN', HELD)
  call('HLEN', key('worker', worker.name))
  call('SCARD', key('worker', worker.name, 'executions'))
end

-- Takes a job. It leaves its list last, so an error before that loses nothing.
local function claim(queue, list, id, lease, owner, worker)
  local member, now = id .. ':' .. worker.execution, stamp(NOW)
  local seconds = string.format('%.6f', NOW)
  local held = { instance = owner.instance, fetch = owner.fetch, worker = worker.name, life = worker.life,
    slot = worker.slot, queue = queue }
  call('HSET', HELD, member, cjson.encode(held))
  local execution = key('execution', member)
  call('HSET', execution, 'id', worker.execution, 'job_id', id, 'created_at', seconds, 'last_heartbeat', seconds,
    'worker_name', worker.name)
  call('EXPIRE', execution, lease)
  call('ZADD', key('executions', id), SECOND + lease + 60, worker.execution)
  call('EXPIRE', key('executions', id), lease + 60)
  call('ZADD', key('wip', queue), NOW + lease, member)
  local name = key('worker', worker.name)
  call('SADD', name .. ':executions', member)
  call('EXPIRE', name .. ':executions', lease + 60)
  if call('EXISTS', name) == 1 then
    call('HSET', name, 'state', 'busy', 'last_heartbeat', now, 'current_job', id, 'current_job_working_time', 0)
  end
  call('HSET', job_key(id), 'status', 'started', 'started_at', now, 'last_heartbeat', now, 'worker_name', worker.name)
  call('HDEL', job_key(id), 'taskvisor_progress')
  call('PERSIST', job_key(id))
  call('LREM', list, 1, id)
end

-- The first jobs of the queues as {id, beginning of its data}: that has the name of its function.
local function heads()
  local all = {}
  for _, queue in ipairs(list()) do
    local ids = kind(key('queue', queue)) == 'list' and call('LRANGE', key('queue', queue), 0, DEEPEST - 1) or {}
    for _, id in ipairs(ids) do
      local data = kind(job_key(id)) == 'hash' and call('HGET', job_key(id), 'data') or ''
      all[#all + 1] = { id, string.sub(data, 1, 4096) }
    end
  end
  return all
end

-- Puts back the jobs of fetches whose replies were lost. Says whether `fetch` is one of them: one that arrives now,
-- by an old connection, must give nothing.
local function is_unheard(instance, fetch, fetches)
  local name, unheard = key('taskvisor', 'unheard'), {}
  for _, one in ipairs(fetches) do unheard[one] = true end
  for _, one in ipairs(#fetches > 0 and held_of(instance) or {}) do
    local id, execution, _, held = unpack(one)
    if unheard[held.fetch] then give_back(held.queue, id, execution, held.worker) end
  end
  if #fetches > 0 then
    for _, one in ipairs(fetches) do call('ZADD', name, SECOND, one) end
    call('ZREMRANGEBYSCORE', name, '-inf', SECOND - 3600)
    call('EXPIRE', name, 3600)
  end
  return call('ZSCORE', name, fetch)
end

-- How long a job has waited since it was enqueued, in seconds as text; empty if nobody noted that.
local function waited(id)
  local since = not is_order(id) and seconds_of(field(id, 'enqueued_at'))
  return since and string.format('%.6f', math.max(0, NOW - since)) or ''
end

-- Takes at most one job for each worker. Gives the jobs as {queue, id, number of the worker, fields, time it waited},
-- the keys that hold something other than a job, and how many jobs are left in each queue; nil instead of that if all
-- are suspended.
local function take()
  local owner, unheard = { fetch = arg() }, list()
  local lease, in_turn
  lease, owner.instance, in_turn = number(), arg(), arg() == 'turn'
  local is_late = is_unheard(owner.instance, owner.fetch, unheard)
  local queues, workers, wanted = list(), {}, nil
  if arg() == 'some' then
    wanted = {}
    for _, id in ipairs(list()) do wanted[id] = true end
  end
  for i = 1, number() do workers[i] = { name = arg(), life = arg(), slot = arg(), execution = arg() } end
  if call('EXISTS', key('suspended')) == 1 then return { {}, {}, false } end
  if is_late then workers = {} end
  local jobs, odd, from, at, empty = {}, {}, {}, 1, 0
  while #jobs < #workers and empty < #queues do
    local queue = queues[at]
    local list, id, is = order_list(queue), next_order(queue), kind(key('queue', queue))
    local hash = id and subject(id)
    if not fits(key('wip', queue), 'zset') then
      odd[#odd + 1] = key('wip', queue)
      id = nil
    elseif not id and is == 'list' then
      list = key('queue', queue)
      id, from[at] = next_of(queue, from[at] or 0, odd, wanted)
    elseif not id and is ~= 'none' then
      odd[#odd + 1] = key('queue', queue)
    end
    if id then
      local worker = workers[#jobs + 1]
      local fields = call('HGETALL', hash or job_key(id))
      check(worker)
      claim(queue, list, id, lease, owner, worker)
      jobs[#jobs + 1] = { queue, id, #jobs, fields, waited(id) }
      empty = 0
      if in_turn then at = at % #queues + 1 end
    else
      empty = empty + 1
      at = at % #queues + 1
    end
  end
  local left = {}
  for i, queue in ipairs(queues) do
    left[i] = kind(key('queue', queue)) == 'list' and call('LLEN', key('queue', queue)) or 0
    left[i] = left[i] + call('LLEN', order_list(queue))
  end
  return { jobs, odd, left }
end

-- Whether an execution that is held may go on. If its job was canceled in RQ it runs on, as it does in RQ.
local function goes_on(id, execution, held)
  local status = call('HGET', job_key(id), 'status')
  if not held or not status then return false end
  return status ~= 'started' or owns(id, execution, held)
end

local function extend(id, execution, lease)
  local member, held = id .. ':' .. execution, holder(id, execution)
  if not goes_on(id, execution, held) then
    if held then forget(held.queue, id, execution, held.worker) end
    return 'lost'
  end
  local name, seconds = key('execution', member), string.format('%.6f', NOW)
  if call('EXISTS', name) == 1 then
    call('HSET', name, 'last_heartbeat', seconds)
    call('EXPIRE', name, lease)
  end
  call('ZADD', key('wip', held.queue), 'XX', NOW + lease, member)
  call('ZADD', key('executions', id), 'XX', SECOND + lease + 60, execution)
  call('EXPIRE', key('executions', id), lease + 60)
  call('EXPIRE', key('worker', held.worker, 'executions'), lease + 60)
  call('HSET', job_key(id), 'last_heartbeat', stamp(NOW))
  return 'renewed'
end

local function renew()
  local lease, answers = number(), {}
  for i = 1, number() do answers[i] = alone(extend, arg(), arg(), lease) end
  return answers
end

-- Notes the progress of jobs that are held; the next attempt begins without it.
local function progress()
  local function note_progress(id, execution, text)
    if goes_on(id, execution, holder(id, execution)) then call('HSET', job_key(id), 'taskvisor_progress', text) end
  end
  for _ = 1, number() do alone(note_progress, arg(), arg(), arg()) end
end
