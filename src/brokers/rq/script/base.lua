-- Functions that all commands share. ARGV: the command, the time in seconds with six decimals, the prefix of all
-- keys, the command's arguments. Keys and fields are those of RQ 2 and 3. Our own are the hash
-- <prefix>:taskvisor:held, from a member of a started registry to its holder; the string <prefix>:taskvisor:mark,
-- which only these data have; the job's fields taskvisor_interrupted and taskvisor_progress; and those of history.lua
-- and callbacks.lua.
local call = redis.call
local NOW, PREFIX = tonumber(ARGV[2]), ARGV[3]
local SECOND = math.floor(NOW)
local HELD = PREFIX .. ':taskvisor:held'
local DEFAULT_TIMEOUT, FAILURE_TTL = 180, 31536000

local read = 3
local function arg()
  read = read + 1
  return ARGV[read]
end

local function number() return tonumber(arg()) end

local function list()
  local all = {}
  for i = 1, number() do all[i] = arg() end
  return all
end

local function key(...) return PREFIX .. ':' .. table.concat({...}, ':') end
local function job_key(id) return key('job', id) end

-- A time in RQ's format.
local function stamp(at)
  local days, rest = math.floor(at / 86400), at % 86400
  local z = days + 719468
  local era = math.floor(z / 146097)
  local day_of_era = z - era * 146097
  local leap = math.floor(day_of_era / 1460) - math.floor(day_of_era / 36524) + math.floor(day_of_era / 146096)
  local year_of_era = math.floor((day_of_era - leap) / 365)
  local day = day_of_era - (365 * year_of_era + math.floor(year_of_era / 4) - math.floor(year_of_era / 100))
  local month = math.floor((5 * day + 2) / 153)
  day = day - math.floor((153 * month + 2) / 5) + 1
  month = month < 10 and month + 3 or month - 9
  local year = year_of_era + era * 400 + (month <= 2 and 1 or 0)
  local seconds = math.floor(rest)
  return string.format('%04d-%02d-%02dT%02d:%02d:%02d.%06dZ', year, month, day, math.floor(seconds / 3600),
    math.floor(seconds % 3600 / 60), seconds % 60, math.floor((rest - seconds) * 1e6))
end

-- The seconds since 1970 of a time in RQ's format; nil if it has another form.
local function seconds_of(text)
  local y, m, d, h, min, s = string.match(text or '', '^(%d+)-(%d+)-(%d+)T(%d+):(%d+):([%d.]+)Z$')
  if not y then return nil end
  y, m = tonumber(y), tonumber(m)
  if m <= 2 then y = y - 1 end
  local era = math.floor(y / 400)
  local year_of_era = y - era * 400
  local day = math.floor((153 * (m > 2 and m - 3 or m + 9) + 2) / 5) + tonumber(d) - 1
  local day_of_era = year_of_era * 365 + math.floor(year_of_era / 4) - math.floor(year_of_era / 100) + day
  return (era * 146097 + day_of_era - 719468) * 86400 + tonumber(h) * 3600 + tonumber(min) * 60 + tonumber(s)
end

-- A field of a job; nil if it is missing or empty.
local function field(id, name)
  local value = call('HGET', job_key(id), name)
  if value and value ~= '' then return value end
  return nil
end

-- The longest time in seconds, and the largest number of anything: a hundred years. Redis refuses longer times to live.
local MOST = 3153600000

-- A whole number that other programs have written, as far as Redis can work with it; nil if it is none.
local function amount(value)
  value = tonumber(value)
  if not value or value ~= value then return nil end
  return math.floor(math.max(-MOST, math.min(value, MOST)))
end

-- One less than a number of tries, in all digits: Redis writes a large number in a form that RQ cannot read.
local function one_less(left) return string.format('%.0f', math.min(left, 2 ^ 53) - 1) end

-- Waits in seconds that other programs have written: a list, or a single one. RQ takes fractions, too.
local function waits_of(value)
  local all = {}
  for i, wait in ipairs(type(value) == 'table' and value or { value }) do
    wait = tonumber(wait)
    all[i] = wait and wait == wait and math.max(-MOST, math.min(wait, MOST)) or 0
  end
  return all
end

-- The value of a JSON text; nil or false if it is none.
local function decoded(text)
  local fine, value = pcall(cjson.decode, text or '')
  return fine and value or nil
end

-- Handles one job of a batch, so that its error does not stop the others. Returns the answer, or `wrong: ` and the
-- error message.
local function alone(act, ...)
  local is_fine, answer = pcall(act, ...)
  if is_fine then return answer end
  return 'wrong: ' .. tostring(type(answer) == 'table' and answer.err or answer)
end

local function split(member)
  return string.match(member, '^(.*):([^:]*)$')
end

-- Whether an unexpired execution of the job runs, other than `except`.
local function runs(queue, id, except)
  for _, execution in ipairs(call('ZRANGE', key('executions', id), 0, -1)) do
    local ends = execution ~= except and call('ZSCORE', key('wip', queue), id .. ':' .. execution)
    if ends and tonumber(ends) > NOW then return true end
  end
  return false
end

-- The record of an execution's holder; nil if no supervisor of taskvisor holds it.
local function holder(id, execution)
  return decoded(call('HGET', HELD, id .. ':' .. execution) or nil)
end

-- Whether an execution that is held owns its job. RQ's cleaning takes one out of its registry and out of the job's
-- executions. If it is missing in the registry alone, somebody has removed that key: it is entered again.
local function owns(id, execution, held)
  local name, member = key('wip', held.queue), id .. ':' .. execution
  if call('ZSCORE', name, member) then return true end
  local is_running = call('HGET', job_key(id), 'status') == 'started'
    and call('ZSCORE', key('executions', id), execution) and not runs(held.queue, id, execution)
  if is_running then call('ZADD', name, NOW + 60, member) end
  return is_running
end

-- The executions that an instance holds, as {job, execution, life, entry}.
local function held_of(instance)
  local all, entries = {}, call('HGETALL', HELD)
  for i = 1, #entries, 2 do
    local entry, id, execution = decoded(entries[i + 1]), split(entries[i])
    if entry and entry.instance == instance then all[#all + 1] = { id, execution, entry.life or 0, entry } end
  end
  return all
end

-- Marks a worker that runs nothing as idle. A worker whose hash is gone is not made again by this.
local function rest(worker)
  local name = key('worker', worker)
  if call('EXISTS', name) == 1 and call('SCARD', name .. ':executions') == 0 then
    call('HSET', name, 'state', 'idle')
    call('HDEL', name, 'current_job', 'current_job_working_time')
  end
end

-- Removes an execution, whatever becomes of its job.
local function forget(queue, id, execution, worker)
  local member = id .. ':' .. execution
  worker = worker or call('HGET', key('execution', member), 'worker_name')
  call('DEL', key('execution', member))
  call('ZREM', key('executions', id), execution)
  -- RQ 1 enters only the id of the job.
  call('ZREM', key('wip', queue), member, id)
  call('HDEL', HELD, member)
  if worker and worker ~= '' then
    call('SREM', key('worker', worker, 'executions'), member)
    rest(worker)
  end
end

-- An order to run a callback is handled like a job in all that concerns its execution; see callbacks.lua.
local function order_list(queue) return key('taskvisor', 'callbacks', queue) end
local function is_order(id) return call('HEXISTS', job_key(id), 'taskvisor_callback') == 1 end

-- A waiting job gets the time to live with which it was put.
local function expire_waiting(id)
  local ttl = amount(field(id, 'ttl'))
  if ttl and ttl > 0 then call('EXPIRE', job_key(id), ttl) end
end

-- Puts a job into its queue, whatever it was before.
local function push(queue, id, at_front)
  if is_order(id) then return call('RPUSH', order_list(queue), id) end
  call('SADD', key('queues'), key('queue', queue))
  call('HSET', job_key(id), 'status', 'queued', 'enqueued_at', stamp(NOW), 'origin', queue)
  call('HSETNX', job_key(id), 'timeout', DEFAULT_TIMEOUT)
  expire_waiting(id)
  call(at_front and 'LPUSH' or 'RPUSH', key('queue', queue), id)
end

local function schedule(queue, id, after)
  call('SADD', key('queues'), key('queue', queue))
  call('HSET', job_key(id), 'status', 'scheduled', 'origin', queue)
  call('HSETNX', job_key(id), 'timeout', DEFAULT_TIMEOUT)
  expire_waiting(id)
  -- RQ's schedulers look at whole seconds; none may come early.
  call('ZADD', key('scheduled', queue), string.format('%.0f', math.ceil(NOW + after)), id)
end

-- Raises an error before anything is written if another program uses the key of a queue.
local function check_queue(queue) call('LLEN', key('queue', queue)) end

-- The same for the keys of a limit that enqueueing a job, or its end, writes.
local function check_limit(id)
  local limit = field(id, 'rate_limit_key')
  if not limit then return end
  call('SCARD', key('rl-keys'))
  call('HLEN', key('rl', limit))
  call('ZCARD', key('rl', limit, 'allowed'))
  call('ZCARD', key('rl', limit, 'rate_limited'))
end

-- The same for all keys that the way of a job back to its queue writes, and the end of an execution on it.
local function check_way_back(queue, id, execution, worker)
  check_queue(queue)
  call('LLEN', order_list(queue))
  call('SCARD', key('queues'))
  for _, registry in ipairs({ 'wip', 'scheduled' }) do call('ZCARD', key(registry, queue)) end
  call('ZCARD', key('executions', id))
  check_limit(id)
  worker = worker or execution and call('HGET', key('execution', id .. ':' .. execution), 'worker_name')
  if worker and worker ~= '' then
    call('HLEN', key('worker', worker))
    call('SCARD', key('worker', worker, 'executions'))
  end
end

-- Puts a job back to the front of its queue, if it was not begun or its run does not count.
local function give_back(queue, id, execution, worker)
  check_way_back(queue, id, execution, worker)
  forget(queue, id, execution, worker)
  call('HSET', job_key(id), 'started_at', '', 'worker_name', '')
  push(queue, id, true)
end
