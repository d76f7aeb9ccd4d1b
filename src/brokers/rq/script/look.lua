-- Requests of people about jobs.
local REGISTRIES = { running = 'wip', delayed = 'scheduled', depends = 'deferred', complete = 'finished',
  failed = 'failed', canceled = 'canceled' }
-- Bytes of a job's data that lists show: the name of its function comes first.
local SHOWN = 4096
-- Longest result that lists show, in bytes.
local LARGEST = 65536

-- Some names of queues, and the cursor of the next ones.
local function queue_names()
  local names, start = {}, #key('queue', '') + 1
  local answer = call('SSCAN', key('queues'), arg(), 'COUNT', 1000)
  for i, name in ipairs(answer[2]) do names[i] = string.sub(name, start) end
  return { answer[1], names }
end

local function size(queue, state)
  local is = kind(key(state == 'waiting' and 'queue' or REGISTRIES[state], queue))
  if state == 'waiting' then return is == 'list' and call('LLEN', key('queue', queue)) or 0 end
  return is == 'zset' and call('ZCARD', key(REGISTRIES[state], queue)) or 0
end

-- For each of these queues: its name, when its oldest job was put, and how many jobs it has in each of the states.
local function queues()
  local states, all, counts = list(), {}, {}
  for i, queue in ipairs(list()) do
    local oldest = size(queue, 'waiting') > 0 and call('LINDEX', key('queue', queue), 0)
    local since = oldest and kind(job_key(oldest)) == 'hash' and seconds_of(field(oldest, 'enqueued_at')) or false
    for at, state in ipairs(states) do counts[at] = size(queue, state) end
    all[i] = { queue, since and string.format('%d', since * 1000), { unpack(counts) } }
  end
  return all
end

-- All fields of a job, its data cut if it is for a list.
local function fields_of(id, is_whole)
  if kind(job_key(id)) ~= 'hash' then return false end
  local fields = call('HGETALL', job_key(id))
  if is_whole then return fields end
  for i = 1, #fields, 2 do
    if fields[i] == 'data' or fields[i] == 'meta' then fields[i + 1] = string.sub(fields[i + 1], 1, SHOWN) end
  end
  return fields
end

-- A job for the broker: its state, its fields, the latest result; for a running job also its holder and the end of its
-- lease.
local function shown(id, fields)
  local results = key('results', id)
  local latest = kind(results) == 'stream' and call('XREVRANGE', results, '+', '-', 'COUNT', 1)[1]
  local status, origin, canceled = unpack(call('HMGET', job_key(id), 'status', 'origin', 'taskvisor_canceled'))
  local entry, execution, ends = '', '', false
  if status == 'started' then
    for _, one in ipairs(call('ZRANGE', key('executions', id), 0, -1)) do
      local found = call('HGET', HELD, id .. ':' .. one)
      if found then entry, execution, ends = found, one, call('ZSCORE', key('wip', origin), id .. ':' .. one) end
    end
  end
  local due = status == 'scheduled' and origin and call('ZSCORE', key('scheduled', origin), id)
  local state = status == 'started' and canceled and 'canceling' or state_of(status)
  return { id, state, fields, latest and latest[2] or {}, entry, execution, ends or '', due or '' }
end

local ENDED = { finished = true, failed = true, stopped = true, canceled = true }

-- The jobs that wait for this one.
local function waiting_for(id)
  local found = {}
  for _, other in ipairs(call('SMEMBERS', key('job', id, 'dependents'))) do
    local status = call('HGET', job_key(other), 'status')
    if status and not ENDED[status] then found[#found + 1] = other end
  end
  return found
end

local function get()
  local id = arg()
  local fields = fields_of(id, true)
  if not fields then return false end
  local needs = {}
  for _, needed in ipairs(call('SMEMBERS', key('job', '', id, 'dependencies'))) do
    -- One that was deleted will not complete either.
    needs[#needs + 1] = { needed, state_of(call('HGET', job_key(needed), 'status') or 'canceled') }
  end
  return { shown(id, fields), needs, waiting_for(id) }
end

-- Whether a member stands before another one of the same score, as Redis orders them: by their bytes.
local function is_before(one, other)
  for i = 1, math.min(#one, #other) do
    local a, b = string.byte(one, i), string.byte(other, i)
    if a ~= b then return a < b end
  end
  return #one < #other
end

-- The rank, from the oldest on, at which a member of this score would stand. Those of one score stand in order, so few
-- of them are looked at: RQ gives one score to all jobs that it keeps for ever.
local function rank_of(name, mark, member)
  local low = call('ZCOUNT', name, '-inf', '(' .. mark)
  local high = low + call('ZCOUNT', name, mark, mark)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if is_before(call('ZRANGE', name, middle, middle)[1], member) then low = middle + 1 else high = middle end
  end
  return low
end

-- How many members of a registry stand before the place behind a row, from its oldest or its newest end, though the row
-- may be gone.
local function passed(name, mark, member, is_oldest)
  local is = call('ZSCORE', name, member)
  if is == mark then return call(is_oldest and 'ZRANK' or 'ZREVRANK', name, member) + 1 end
  local rank = rank_of(name, mark, member)
  return is_oldest and rank or call('ZCARD', name) - rank
end

-- The rows of a queue's list behind a row, newest first. A row has its place, counted from the oldest end. Where the
-- row is gone that place holds: jobs that came at the other end, or were taken from either, have none passed over.
local function waiting_behind(name, mark, id, most)
  local place = mark and (call('LPOS', name, id, 'RANK', -1) or math.min(tonumber(mark), call('LLEN', name)))
    or call('LLEN', name)
  local ids, rows = {}, {}
  local found = place > 0 and call('LRANGE', name, math.max(place - most, 0), place - 1) or {}
  for i = #found, 1, -1 do
    ids[#ids + 1] = found[i]
    rows[#ids] = string.format('%d %s', place - #ids, found[i])
  end
  return ids, rows
end

-- The executions that run behind a row, in the order of their members: their scores change while they run.
local function running_behind(name, member, most)
  local members, ids, rows = call('ZRANGE', name, 0, -1), {}, {}
  table.sort(members, is_before)
  for _, one in ipairs(members) do
    if #ids < most and (not member or is_before(member, one)) then
      ids[#ids + 1] = split(one) or one
      rows[#ids] = '0 ' .. one
    end
  end
  return ids, rows
end

-- The ids in a state of a queue behind a row, newest or oldest first, and the row of each: where it stands, and its
-- member. An empty row is none.
local function stretch(queue, state, row, most, is_oldest)
  local mark, member = string.match(row, '^(%S+) (.*)$')
  if size(queue, state) == 0 then return {}, {} end
  if state == 'waiting' then return waiting_behind(key('queue', queue), mark, member, most) end
  local name, ids, rows = key(REGISTRIES[state], queue), {}, {}
  if state == 'running' then return running_behind(name, member, most) end
  local from = mark and passed(name, mark, member, is_oldest) or 0
  local found = call(is_oldest and 'ZRANGE' or 'ZREVRANGE', name, from, from + most - 1, 'WITHSCORES')
  for i = 1, #found, 2 do
    ids[#ids + 1] = found[i]
    rows[#ids] = found[i + 1] .. ' ' .. found[i]
  end
  return ids, rows
end

-- Reads so many jobs whose ids begin so, of these queues and states, from behind a row of the first one on. Gives in
-- which one to go on, and behind which row; and the time, in milliseconds.
local function page()
  local row, looks, is_oldest, most, prefix, lists = arg(), number(), arg() == 'oldest', number(), arg(), list()
  local jobs = {}
  for i = 1, #lists, 2 do
    local ids, rows = stretch(lists[i], lists[i + 1], row, looks, is_oldest)
    for at, id in ipairs(ids) do
      local fields = string.sub(id, 1, #prefix) == prefix and fields_of(id, false)
      if fields then
        local job = shown(id, fields)
        for n, value in ipairs(job[4]) do
          if #value > LARGEST then job[4][n] = '' end
        end
        jobs[#jobs + 1] = job
        if #jobs == most then return { (i - 1) / 2, rows[at], jobs, NOW * 1000 } end
      end
    end
    if #ids == looks then return { (i - 1) / 2, rows[looks], jobs, NOW * 1000 } end
    row, looks = '', looks - #ids
  end
  return { #lists / 2, '', jobs, NOW * 1000 }
end

-- Counts the tasks of a stretch whose ids begin so, and gives how far it has looked. The id of a task has four elements
-- in base 32, the last one of 26 letters.
local function count_tasks()
  local queue, state, row, looks, prefix = arg(), arg(), arg(), number(), arg()
  local found, ids, rows = 0, stretch(queue, state, row, looks, false)
  for _, id in ipairs(ids) do
    local unique = string.sub(id, 1, #prefix) == prefix and string.match(id, '^%w*_%w*_%w*_(%w+)$') or ''
    if #unique == 26 and kind(job_key(id)) == 'hash' then found = found + 1 end
  end
  return { rows[looks] or '', found }
end

-- The row of a job in the list of its queue and state, and how many come before it; nothing if it is in none.
local function place()
  local id, queue, state = arg(), arg(), arg()
  if state == 'waiting' then
    local at = call('LPOS', key('queue', queue), id)
    return at and { at .. ' ' .. id, at }
  end
  local name = REGISTRIES[state] and key(REGISTRIES[state], queue)
  local at = name and call('ZREVRANK', name, id)
  return at and { call('ZSCORE', name, id) .. ' ' .. id, at }
end

-- The answer to a change: whether it was made, and the state of the job; no state if there is no such job.
local function changed(state) return { 1, state } end
local function unchanged(status) return { 0, status and state_of(status) or '' } end

-- Cancels a job as RQ's cancel does. The worker stops a running one.
local function cancel()
  local id, canceled, exception = arg(), arg(), arg()
  if kind(job_key(id)) ~= 'hash' then return unchanged() end
  local status, origin = unpack(call('HMGET', job_key(id), 'status', 'origin'))
  if status == 'started' then
    note(id, canceled)
    for _, execution in ipairs(call('ZRANGE', key('executions', id), 0, -1)) do
      if holder(id, execution) then call('HSET', job_key(id), 'taskvisor_canceled', exception) end
    end
    local worker = field(id, 'worker_name')
    if worker then
      local said = cjson.encode({ command = 'stop-job', job_id = id })
      call('PUBLISH', key('pubsub', worker), said)
    end
    return changed('canceling')
  end
  if status == 'canceled' then return changed('canceled') end
  if ENDED[status] then return unchanged(status) end
  for _, registry in ipairs({ 'deferred', 'ready', 'scheduled' }) do call('ZREM', key(registry, origin), id) end
  call('LREM', key('queue', origin), 0, id)
  call('HSET', job_key(id), 'status', 'canceled')
  note(id, canceled)
  call('ZADD', key('canceled', origin), SECOND, id)
  local limit = field(id, 'rate_limit_key')
  if limit then
    call('ZREM', key('rl', limit, 'rate_limited'), id)
    free_slot(id, limit)
  end
  return changed('canceled')
end

-- Takes an ended job from the arguments: gives its id, its status and its queue; else nil and the answer.
local function ended()
  local id = arg()
  if kind(job_key(id)) ~= 'hash' then return nil, unchanged() end
  local status, origin = unpack(call('HMGET', job_key(id), 'status', 'origin'))
  if not ENDED[status] or runs(origin, id) then return nil, unchanged(status) end
  return id, status, origin
end

-- A canceled job may have been canceled before all was done for which it waited: it waits for the rest.
local function defers(id, origin)
  if is_free(id, '', 'finished') then return false end
  for _, needed in ipairs(call('SMEMBERS', key('job', '', id, 'dependencies'))) do
    if call('EXISTS', job_key(needed)) == 1 then call('SADD', key('job', needed, 'dependents'), id) end
  end
  call('HSET', job_key(id), 'status', 'deferred')
  call('ZADD', key('deferred', origin), SECOND, id)
  return true
end

-- Enqueues an ended job again, as RQ's requeue does.
local function requeue()
  local id, status, origin = ended()
  if not id then return status end
  check_way_back(origin, id)
  for _, registry in ipairs({ 'finished', 'failed', 'canceled' }) do call('ZREM', key(registry, origin), id) end
  call('PERSIST', job_key(id))
  call('HSET', job_key(id), 'started_at', '', 'ended_at', '')
  call('HDEL', job_key(id), 'exc_info', 'taskvisor_progress')
  forget_counts(id)
  note(id, '"retried":{"by":' .. arg() .. ',"from":"' .. STATES[status] .. '"}')
  if status ~= 'canceled' or not defers(id, origin) then enqueue(origin, id, false) end
  return changed('waiting')
end

local function discard()
  local id, wrong = ended()
  if not id then return wrong end
  delete(id)
  return changed('')
end

-- Sets a field of a job and notes that, if the field still has its old text.
local function edit()
  local id, name, old, new, edited = arg(), arg(), arg(), arg(), arg()
  if kind(job_key(id)) ~= 'hash' or (field(id, name) or '') ~= old then return false end
  if new == '' then call('HDEL', job_key(id), name) else call('HSET', job_key(id), name, new) end
  note(id, edited)
  return 1
end

-- Some ids that begin with a prefix, and the cursor of the next ones; `0` if these are the last.
local function find()
  local prefix, pattern, cursor = arg(), arg(), arg()
  if kind(job_key(prefix)) == 'hash' then return { '0', { prefix } } end
  local found, start = {}, #job_key('') + 1
  local answer = call('SCAN', cursor, 'MATCH', job_key(pattern) .. '*', 'COUNT', 5000)
  for _, name in ipairs(answer[2]) do
    local id = string.sub(name, start)
    if not string.find(id, ':') then found[#found + 1] = id end
  end
  return { answer[1], found }
end

-- Puts all jobs, or none if one of their ids exists and that is refused: gives that id.
local function put()
  local jobs, new = {}, {}
  for i = 1, number() do
    jobs[i] = { id = arg(), queue = arg(), delay = number(), skips = arg() == 'skip', token = arg(), fields = list() }
  end
  for _, job in ipairs(jobs) do
    -- Raises an error before anything is written if another program uses these keys.
    check_queue(job.queue)
    call('ZCARD', key('scheduled', job.queue))
    call('SCARD', key('queues'))
    job.is_there = new[job.id] or call('EXISTS', job_key(job.id)) == 1
    -- It was made by this same put, whose reply was lost; or by one that could not write the queue, which is put again.
    local is_same = not new[job.id] and job.token ~= '' and field(job.id, 'taskvisor_token') == job.token
    local is_lost = field(job.id, 'status') == 'queued' and not is_queued(job.queue, job.id)
    if is_same and is_lost then job.is_there = false end
    if job.is_there and not job.skips and not is_same then return job.id end
    new[job.id] = true
  end
  for _, job in ipairs(jobs) do
    if not job.is_there then
      call('HSET', job_key(job.id), 'created_at', stamp(NOW), unpack(job.fields))
      if job.token ~= '' then call('HSET', job_key(job.id), 'taskvisor_token', job.token) end
      if job.delay > 0 then
        schedule(job.queue, job.id, job.delay)
      else
        push(job.queue, job.id, false)
      end
    end
  end
  return false
end
