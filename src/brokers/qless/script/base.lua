-- Jobs in Redis, in the keys of qless: EVALSHA <sha> 0 <command> <now> [arguments...].
--
-- Redis runs this text from its first line at each call, so each definition here costs time in every command: only
-- functions that many commands share are at this level. A command is a branch in the files that follow, with its own
-- functions inside it. All is one function, as its parts can then use outer locals at no cost. Nothing is rolled back
-- after an error: a command checks all its arguments before it writes anything.

local call, try, encode, decode = redis.call, redis.pcall, cjson.encode, cjson.decode
local floor, format = math.floor, string.format

local function taskvisor(KEYS, ARGV)

-- The number that a text stands for, if Redis takes it too: nil for nan and infinity.
local function number(text)
  local value = tonumber(text)
  if value and value - value == 0 then return value end
end

local args, command, now, clock = ARGV, ARGV[1], ARGV[2], number(ARGV[2])
if #KEYS > 0 then error('No Keys should be provided') end
if not command then error('Must provide a command') end
if not clock then error('Arg "now" missing or not a number: ' .. tostring(now)) end
-- `now` keeps the text as it came, with all digits; `clock` is the same as a number.
if now:find('[^%d.]') then now = format('%.17g', clock) end

-- Commands of taskvisor alone; they use all the others.
local ours = command:sub(1, 10) == 'taskvisor.'

-- The value, or an error with this text and the argument if it is nil.
local function need(value, text, ...)
  if not value then error(text .. (select('#', ...) > 0 and tostring((...)) or '')) end
  return value
end

-- The arguments from `first` on as names and values.
local function named_args(first)
  if #args >= first and (#args - first) % 2 == 0 then error('Odd number of additional args: ' .. tostring(args)) end
  local given = {}
  for i = first, #args, 2 do given[args[i]] = args[i + 1] end
  return given
end

-- The arguments from `first` on.
local function args_from(first)
  local rest = {}
  for i = first, #args do rest[#rest + 1] = args[i] end
  return rest
end

-- Calls a command with many values in parts, as Lua's stack is small; `by` another function, such as `aside`.
local function call_many(name, key, values, by)
  by = by or call
  for i = 1, #values, 1000 do by(name, key, unpack(values, i, math.min(i + 999, #values))) end
end

-- Keys of a wrong kind that this call has met, left there by another program: the key, its kind or the error, the queue
-- that must wait for it (`*` = all) if any, and the job.
local odd = {}
local function note_odd(key, has, queue, jid)
  if not odd[key] then odd[#odd + 1] = {key, has, queue or '', jid or ''} end
  odd[key] = true
end

-- Refuses a key of a wrong kind, and names it. A command asks this of the keys on which a job's place depends, before
-- it writes any of them: then it fails as a whole. `odd.latest` is the latest refusal.
local sound = {}
local function need_kind(kind, key)
  if sound[key] then return end
  local has = call('TYPE', key).ok
  if has ~= kind and has ~= 'none' then
    odd.latest = {key, has}
    error('another program has spoiled the key ' .. key .. ' (' .. has .. ')', 0)
  end
  sound[key] = true
end

-- Asks this of lists of a queue.
local function need_lists(queue, ...)
  for _, ending in ipairs({...}) do need_kind('zset', 'ql:q:' .. queue .. ending) end
end

-- Calls a command for an index or a figure, on which no job's place depends: a value of a wrong kind is noted, and
-- stops nothing. Gives nil then.
local function aside(name, key, ...)
  local answer = try(name, key, ...)
  if type(answer) ~= 'table' or not answer.err then return answer end
  -- Called again for the error, which is not the key's: Redis is full, for example.
  if not answer.err:find('WRONGTYPE', 1, true) and not answer.err:find('not an integer', 1, true) then
    return call(name, key, ...)
  end
  note_odd(key, call('TYPE', key).ok)
end

-- Supervisors that serve an event stream get news on a channel of their own; without such a supervisor nothing is
-- published. A message without text says that the next line on `ql:log` is this script's, which publishes its news
-- there; a line without that message comes from another script, which publishes nothing else.
local listeners
local function news(what, jid, queue, state, why)
  -- A Redis user without the right to call PUBSUB is told so at its connect; its changes are not published.
  listeners = listeners or redis.pcall('PUBSUB', 'NUMSUB', 'ql:taskvisor:news')[2] or 0
  if listeners == 0 then return end
  call('PUBLISH', 'ql:taskvisor:news', what and encode({
    what = what, at = floor(clock * 1000), job = jid, queue = queue or nil, why = why,
    state = state == 'scheduled' and 'delayed' or state == 'stalled' and 'waiting' or state,
    tags = call('HGET', 'ql:j:' .. jid, 'tags') or nil, class = call('HGET', 'ql:j:' .. jid, 'klass') or nil,
  }) or '')
end

-- The JSON of events is written by hand: other programs compare it as text, and `cjson` keeps no order of keys.

-- Publishes an event on `ql:log`, which every client may read.
local function tell(text)
  news()
  call('PUBLISH', 'ql:log', text)
end

-- Publishes the event of a tracked job. Usually no job is tracked: that is looked up once in a call.
local any_followed
local function tell_followers(event, jid)
  if any_followed == nil then any_followed = call('EXISTS', 'ql:tracked') == 1 end
  if any_followed and aside('ZSCORE', 'ql:tracked', jid) then call('PUBLISH', 'ql:' .. event, jid) end
end

-- The event of a job that waits again.
local function tell_put(jid, queue)
  tell('{"jid":' .. encode(jid) .. ',"event":"put","queue":' .. encode(queue) .. '}')
end

local function tell_failed(jid, group, message, worker)
  tell('{"message":' .. encode(message) .. ',"jid":' .. encode(jid) .. ',"group":' .. encode(group)
    .. ',"event":"failed","worker":' .. encode(worker) .. '}')
end

local function lock_lost_text(jid, worker)
  return '{"jid":' .. encode(jid) .. ',"event":"lock_lost","worker":' .. encode(worker) .. '}'
end

-- Tells a worker, then everyone, that it does not hold a job any more.
local function tell_lock_lost(jid, worker)
  local text = lock_lost_text(jid, worker)
  call('PUBLISH', 'ql:w:' .. worker, text)
  tell(text)
end

-- Whether a text is JSON, and its value.
local function json(text)
  return pcall(decode, text)
end

-- A JSON list or object as a table; nil if the text is neither.
local function json_table(text)
  local fine, value = json(text)
  if fine and type(value) == 'table' then return value end
end

-- A JSON list of names; nil if the text is none. A name may be a number, except infinity, which JSON cannot write.
local function json_names(text)
  if text == '{}' or text == '[]' then return {} end
  local names = json_table(text)
  for _, name in pairs(names or {}) do
    if type(name) ~= 'string' and (type(name) ~= 'number' or name - name ~= 0) then return end
  end
  return names
end

-- An option that is a number; `by` is `aside` for what no job's place depends on.
local function option(name, default, by)
  return number((by or call)('HGET', 'ql:config', name) or default) or default
end

-- Fields of a job's hash, `false` for each that is not there.
local function fields(jid, ...)
  return unpack(call('HMGET', 'ql:j:' .. jid, ...))
end

-- The latest line of a history: many jobs of a call get the same one.
local line = {}

-- Appends to a job's history; `extra` is the text of a JSON object. The first entry stays, and the newest.
local function history(jid, when, what, extra)
  local key = 'ql:j:' .. jid .. '-history'
  if line.what ~= what or line.extra ~= extra or line.at ~= when then
    local text = format('[%d,', when) .. encode(what) .. (extra and ',' .. extra .. ']' or ']')
    line = {what = what, extra = extra, at = when, text = text}
  end
  local text = line.text
  local count = aside('RPUSH', key, text)
  if not count then
    -- A value of another kind is no history.
    call('DEL', key)
    count = call('RPUSH', key, text)
  end
  -- Most jobs have no fourth entry, and need no look at the option. A limit below three counts as three.
  if count <= 3 then return end
  local most = option('max-job-history', 100, aside)
  if most > 0 and count > most then
    local first = call('LPOP', key)
    call('LTRIM', key, 1 - math.max(floor(most), 3), -1)
    call('LPUSH', key, first)
  end
end

local known = {}
local function know_queue(queue)
  if not known[queue] then call('ZADD', 'ql:queues', 'NX', now, queue) end
  known[queue] = true
end

-- Adds a job to the waiting jobs of a queue: the highest priority first, then the one that has waited longest.
local function enter_work(jid, queue, priority, when)
  call('ZADD', 'ql:q:' .. queue .. '-work', (number(priority) or 0) - when / 1e10, jid)
end

-- What a failed job keeps of its failure, as JSON.
local function failure_text(group, message, when, worker)
  return '{"group":' .. encode(group) .. ',"message":' .. encode(message) .. ',"when":' .. encode(when) .. ',"worker":'
    .. encode(worker) .. '}'
end

-- Takes a job out of every list of a queue.
local function leave(jid, queue)
  local key = 'ql:q:' .. queue
  call('ZREM', key .. '-work', jid)
  call('ZREM', key .. '-locks', jid)
  call('ZREM', key .. '-scheduled', jid)
  call('ZREM', key .. '-depends', jid)
  -- Where reqless keeps jobs that a throttle holds up.
  call('ZREM', key .. '-throttled', jid)
end

local function forget_worker_job(worker, jid)
  if worker and worker ~= '' then aside('ZREM', 'ql:w:' .. worker .. ':jobs', jid) end
end

-- Adds tags to a job. The count of a tag is the number of jobs that have it: a job that had it already is not counted
-- again.
local function tag(jid, tags, when)
  for _, name in ipairs(tags) do
    if aside('ZADD', 'ql:t:' .. name, 'NX', when, jid) == 1 then aside('ZINCRBY', 'ql:tags', 1, name) end
  end
end

local function untag(jid, tags)
  for _, name in ipairs(tags) do
    if aside('ZREM', 'ql:t:' .. name, jid) == 1 and (tonumber(aside('ZINCRBY', 'ql:tags', -1, name)) or 1) <= 0 then
      call('ZREM', 'ql:tags', name)
    end
  end
end

-- The key of a day's statistics.
local function figures(kind, queue, when)
  return format('ql:s:%s:%d:', kind, when - when % 86400) .. queue
end

-- Lets a day's statistics expire as the option says: after a hundred years at the latest.
local function keep_days(key)
  local days = math.min(floor(option('stats-history', 30, aside)), 36525)
  if days > 0 then call('EXPIRE', key, days * 86400) end
end

-- Whether this worker holds the job. With `hold`, the fence must be the same too: otherwise the call is about an
-- earlier lease.
local function is_holder(worker, hold, has_worker, has_hold)
  return has_worker == worker and (not hold or hold == (has_hold or '0'))
end

-- Adds to the counters of a day: retries, failed, failures. A value that another program has stored there stays.
local function count(queue, when, field, by)
  local key = figures('stats', queue, when)
  if try('HINCRBY', key, field, by) == by then keep_days(key) end
end

-- Adds how long jobs have waited (`wait`) or run (`run`) to mean and variance (Welford's way) and to the histogram.
local function stat(kind, queue, when, values)
  local key, names, more = figures(kind, queue, when), {'mean', 'vk', 'total'}, {}
  for i = 1, #values do
    local value = values[i]
    local name = value < 1 and 's0' or value < 60 and format('s%d', value) or value < 3600 and format('m%d', value / 60)
      or value < 86400 and format('h%d', value / 3600) or format('d%d', value / 86400)
    if not more[name] then names[#names + 1] = name end
    more[name] = (more[name] or 0) + 1
  end
  local had, set = aside('HMGET', key, unpack(names)), {}
  if not had then return end
  local mean, vk, total = number(had[1]) or 0, number(had[2]) or 0, number(had[3]) or 0
  for i = 1, #values do
    local value = values[i] > 0 and values[i] or 0
    local before = value - mean
    mean = mean + before / (total + i)
    vk = vk + before * (value - mean)
  end
  -- Numbers go as text: Redis would write 17 digits of a number, which takes longer than all of this.
  for i = 4, #names do
    set[2 * i - 7], set[2 * i - 6] = names[i], format('%d', (number(had[i]) or 0) + more[names[i]])
  end
  call('HSET', key, 'mean', tostring(mean), 'vk', tostring(vk), 'total', format('%d', total + #values), unpack(set))
  if total == 0 then keep_days(key) end
end

-- Asks for the kinds of the lists of failed jobs, and of those of the queue that a failed job leaves.
local function need_failure(queue, group)
  need_lists(queue, '-work', '-locks', '-scheduled')
  need_kind('set', 'ql:failures')
  need_kind('list', 'ql:f:' .. group)
end

-- Jobs whose lists could not be written. They are looked at again with each fetch.
local STRAY = 'ql:taskvisor:stray'

-- Adds a job to an index. Its end does not wait for that: where the key is spoiled, it is added later.
local function index_or_stray(key, score, jid)
  if not aside('ZADD', key, score, jid) then aside('SADD', STRAY, jid) end
end

-- Lists a failed job. Its end does not wait for that either.
local function add_failure(jid, group)
  if not (aside('SADD', 'ql:failures', group) and aside('LPUSH', 'ql:f:' .. group, jid)) then
    aside('SADD', STRAY, jid)
  end
end

local function remove_failure(jid, group)
  -- The oldest entries are at the end of the list.
  if group and call('LREM', 'ql:f:' .. group, -1, jid) > 0 and call('EXISTS', 'ql:f:' .. group) == 0 then
    call('SREM', 'ql:failures', group)
  end
end

-- A job does not count as failed any more, nor do the day and the queue in which it failed. Gives the group that it
-- must leave.
local function forget_failure(queue, failure)
  local told = json_table(failure) or {}
  if queue and number(told.when) then count(queue, told.when, 'failed', -1) end
  return type(told.group) == 'string' and told.group
end

-- Removes a job and all keys that belong to it.
local function forget(jid, tags)
  untag(jid, json_names(tags) or {})
  local key = 'ql:j:' .. jid
  call('DEL', key, key .. '-history', key .. '-dependencies', key .. '-dependents')
  aside('ZREM', 'ql:taskvisor:jobs', jid)
end

-- Marks a job as failed, wherever it was.
local function set_failed(jid, queue, when, group, failure)
  local key = 'ql:q:' .. queue
  call('ZREM', key .. '-work', jid)
  call('ZREM', key .. '-locks', jid)
  call('ZREM', key .. '-scheduled', jid)
  call('HSET', 'ql:j:' .. jid, 'state', 'failed', 'worker', '', 'expires', '', 'failure', failure)
  call('HDEL', 'ql:j:' .. jid, 'grace')
  add_failure(jid, group)
  count(queue, when, 'failures', 1)
  count(queue, when, 'failed', 1)
end
