-- The script of the reliable queue. The keys values, pending, working and results are the tutorial's; those that begin
-- with taskvisor: are ours. ARGV: a command, the caller's time (only the server's own counts), the command's arguments.
local VALUES, PENDING, WORKING, RESULTS = 'values', 'pending', 'working', 'results'
local JOBS = 'taskvisor:jobs' -- id -> in JSON attempts, losses, token of its put, and who has it: fence, holder, fetch
local UNTIL = 'taskvisor:until' -- id -> the score that we gave it in working: the end of its lease, or of its delay
local DEAD = 'taskvisor:dead' -- id -> fence, and in JSON why it is not tried again
local DONE = 'taskvisor:done' -- id and fence -> when it completed
local SEEN = 'taskvisor:seen' -- id in working of another client -> its score there, and when we saw that first
local COUNTS = 'taskvisor:counts' -- the latest fence; how many ids had no value
local KINDS = {
  [VALUES] = 'hash', [PENDING] = 'list', [WORKING] = 'zset', [RESULTS] = 'hash', [JOBS] = 'hash', [UNTIL] = 'zset',
  [DEAD] = 'hash', [DONE] = 'zset', [SEEN] = 'hash', [COUNTS] = 'hash',
}
-- In this order: how many jobs a fetch looks at beyond those it gives; how many it looks at in one step; how many bytes
-- it gives; after how many deaths of its holder a job is dead; how many entries one tidying, or one Redis command,
-- handles.
local LOOK, FEW, BYTES, LOSSES, STRETCH = 1000, 50, 2 ^ 23, 5, 500

local call = redis.call
local time = call('TIME')
local now = time[1] + time[2] / 1e6
local at = 2

local function arg()
  at = at + 1
  return ARGV[at]
end

local function args()
  local list = {}
  for i = 1, tonumber(arg()) do list[i] = arg() end
  return list
end

-- Calls a command for many ids in parts; gives the answers in their order, if there is one for each.
local function many(command, key, list)
  local all = {}
  for from = 1, #list, STRETCH do
    local answers = call(command, key, unpack(list, from, math.min(from + STRETCH - 1, #list)))
    for i, answer in ipairs(type(answers) == 'table' and answers or {}) do all[from + i - 1] = answer end
  end
  return all
end

local function add(list, word, other)
  list[#list + 1] = word
  if other then list[#list + 1] = other end
end

local function read(id, text)
  local one = text and cjson.decode(text) or { attempts = 0, losses = 0 }
  one.id = id
  return one
end

local function job(id) return read(id, call('HGET', JOBS, id)) end

local function text(one)
  return cjson.encode({
    attempts = one.attempts, losses = one.losses, token = one.token,
    fence = one.fence, holder = one.holder, fetch = one.fetch,
  })
end

local function keep(one)
  if not one.fence and not one.token and one.attempts + one.losses == 0 then return call('HDEL', JOBS, one.id) end
  call('HSET', JOBS, one.id, text(one))
end

-- Keeps ids in working until that time. The score is in the future, so no client's tidying takes them for stale.
local function hold_until(ids, till)
  local scored = {}
  for _, id in ipairs(ids) do add(scored, till, id) end
  many('ZADD', UNTIL, scored)
  many('ZADD', WORKING, scored)
end

local function delay(id, seconds) hold_until({ id }, string.format('%.6f', now + seconds)) end

-- Leases end at a full second: Redis is slow to print fractions.
local function lease(ids, seconds) hold_until(ids, string.format('%.0f', math.ceil(now + seconds))) end

local function let_go(ids)
  many('ZREM', WORKING, ids)
  many('ZREM', UNTIL, ids)
  many('HDEL', SEEN, ids)
end

local function forget(ids)
  let_go(ids)
  many('HDEL', JOBS, ids)
end

-- Completes each id under its fence.
local function done(ids, fences)
  local at, scored = string.format('%.6f', now), {}
  for i, id in ipairs(ids) do add(scored, at, id .. ' ' .. fences[i]) end
  forget(ids)
  many('ZADD', DONE, scored)
  return 'complete'
end

-- Whether we have the job in working; `till` is the score we gave it, `score` the one it has. If another client has
-- tidied it away, and it still waits, it becomes ours again.
local function is_ours(id, till, score)
  if not till or score then return till and till == score end
  return call('LREM', PENDING, 1, id) > 0
end

local function holds(one, fence)
  return one.fence == fence and is_ours(one.id, call('ZSCORE', UNTIL, one.id), call('ZSCORE', WORKING, one.id))
end

-- Puts a job back, in front of the others. A job with a result is done, even if another client wrote the result.
local function back(one, seconds)
  if call('HEXISTS', RESULTS, one.id) == 1 then return done({ one.id }, { 0 }) end
  one.fence, one.holder, one.fetch = nil, nil, nil
  keep(one)
  if seconds > 0 then
    delay(one.id, seconds)
    return 'delayed'
  end
  let_go({ one.id })
  call('RPUSH', PENDING, one.id)
  return 'waiting'
end

local function bury(one, why)
  forget({ one.id })
  call('HSET', DEAD, one.id, (one.fence or 0) .. ' ' .. why)
  return 'dead'
end

-- The holder of the job died without an outcome.
local function lost(one)
  one.attempts, one.losses = math.max(one.attempts - 1, 0), one.losses + 1
  if one.losses < LOSSES then return back(one, 0) end
  return bury(one, cjson.encode({ error = 'interrupted: whoever ran it died, ' .. one.losses .. ' times' }))
end

local function release(is_meant, give)
  local held = {}
  for _, id in ipairs(call('HKEYS', JOBS)) do
    local one = job(id)
    if one.fence and is_meant(one) then held[#held + 1] = one end
  end
  -- Each goes in front of the others, so the one that was taken first goes last.
  table.sort(held, function(one, other) return tonumber(one.fence) > tonumber(other.fence) end)
  local count = 0
  for _, one in ipairs(held) do
    if holds(one, one.fence) then
      give(one)
      count = count + 1
    end
  end
  return count
end

local function unspent(one, seconds)
  one.attempts = math.max(one.attempts - 1, 0)
  return back(one, seconds)
end

local function is_one_of(names, class)
  for _, name in ipairs(names) do
    local start = string.match(name, '^(.*)%*$')
    if name == class or start and string.sub(class, 1, #start) == start then return true end
  end
  return false
end

local function is_wanted(value, only, except)
  if #only + #except == 0 then return true end
  local is_json, json = pcall(cjson.decode, value)
  local class = is_json and type(json) == 'table' and type(json.class) == 'string' and json.class or 'value'
  return (#only == 0 or is_one_of(only, class)) and not is_one_of(except, class)
end

local commands = {}

-- Gives the jobs their fences and leases.
local function grant(jobs, seconds)
  local ids, kept = {}, {}
  for i, one in ipairs(jobs) do
    ids[i] = one.id
    add(kept, one.id, text(one))
  end
  many('HSET', JOBS, kept)
  many('HDEL', DEAD, ids)
  lease(ids, seconds)
end

-- Removes these ids from pending; `passed` is the number of skipped ids behind them.
local function take_out(ids, passed)
  if passed == 0 then return call('LTRIM', PENDING, 0, -1 - #ids) end
  for _, id in ipairs(ids) do call('LREM', PENDING, -1, id) end
end

function commands.fetch()
  local count, seconds, holder, fetch = tonumber(arg()), tonumber(arg()), arg(), arg()
  local unheard, only, except = args(), args(), args()
  if #unheard > 0 then
    release(function(one) return is_one_of(unheard, one.fetch) end, function(one) unspent(one, 0) end)
  end
  local given, passed, dropped, bytes, looks = {}, 0, 0, 0, count + LOOK
  local fence = math.max(tonumber(call('HGET', COUNTS, 'fence') or 0), math.floor(now * 1e6))
  while #given < count and bytes < BYTES and looks > 0 do
    local size = math.min(passed > 0 and FEW or count - #given, FEW, looks)
    local ids = call('LRANGE', PENDING, -passed - size, -1 - passed)
    if #ids == 0 then break end
    looks = looks - #ids
    local values, results = call('HMGET', VALUES, unpack(ids)), call('HMGET', RESULTS, unpack(ids))
    local tills, scores = call('ZMSCORE', UNTIL, unpack(ids)), call('ZMSCORE', WORKING, unpack(ids))
    local known, out, jobs, is_given = call('HMGET', JOBS, unpack(ids)), {}, {}, {}
    for i = #ids, 1, -1 do
      local id, value, till = ids[i], values[i], tills[i]
      if #given == count or bytes >= BYTES then break end
      if value and not results[i] and not is_wanted(value, only, except) then
        passed = passed + 1
      else
        add(out, id)
        if results[i] then
          if not till then done({ id }, { 0 }) end
        elseif not value then
          dropped = dropped + 1
        elseif scores[i] or is_given[id] then
          -- The id is here a second time while its job runs.
        elseif till and tonumber(till) > now then
          call('ZADD', WORKING, till, id) -- The same, tidied away by another client.
        else
          fence, bytes, is_given[id] = fence + 1, bytes + #value, true
          local one = read(id, known[i])
          one.attempts, one.fence, one.holder, one.fetch = one.attempts + 1, string.format('%.0f', fence), holder, fetch
          add(jobs, one)
          add(given, { id, one.fence, one.attempts, value })
        end
      end
    end
    take_out(out, passed)
    grant(jobs, seconds)
  end
  if #given > 0 then call('HSET', COUNTS, 'fence', string.format('%.0f', fence)) end
  if dropped > 0 then call('HINCRBY', COUNTS, 'dropped', dropped) end
  return { given, dropped }
end

function commands.renew()
  local seconds, answers, held = tonumber(arg()), {}, {}
  for i = 1, tonumber(arg()) do
    local id, fence = arg(), arg()
    local is_held = holds(job(id), fence)
    if is_held then add(held, id) end
    answers[i] = is_held and 1 or 0
  end
  lease(held, seconds)
  return answers
end

local function settle(one, verdict, seconds, why)
  if verdict == 'dead' then
    return bury(one, why)
  elseif verdict == 'canceled' then
    forget({ one.id })
    call('HDEL', VALUES, one.id)
    return verdict
  elseif verdict == 'release' then
    if why ~= '' then one.losses = one.losses + 1 end
    return unspent(one, seconds)
  elseif verdict == 'next' then
    one.attempts, one.losses = 0, 0
  end
  return back(one, seconds)
end

-- The answer to a settlement that the supervisor repeats because the first answer was lost; else `not_ours`.
local function told_before(id, fence, verdict)
  if verdict == 'complete' and call('ZSCORE', DONE, id .. ' ' .. fence) then return verdict end
  local dead = verdict == 'dead' and call('HGET', DEAD, id)
  return dead and string.match(dead, '^%S+') == fence and verdict or 'not_ours'
end

function commands.settle()
  local ends, ids, answers, complete, fences, results = {}, {}, {}, {}, {}, {}
  for i = 1, tonumber(arg()) do
    ends[i] = { id = arg(), fence = arg(), verdict = arg(), seconds = tonumber(arg()), text = arg(), is_again = arg() == '1' }
    ids[i] = ends[i].id
  end
  local known, tills, scores = many('HMGET', JOBS, ids), many('ZMSCORE', UNTIL, ids), many('ZMSCORE', WORKING, ids)
  local is_told = {}
  for i, one in ipairs(ends) do
    local held = read(one.id, known[i])
    if is_told[one.id] or held.fence ~= one.fence or not is_ours(one.id, tills[i], scores[i]) then
      answers[i] = one.is_again and told_before(one.id, one.fence, one.verdict) or 'not_ours'
    elseif one.verdict == 'complete' then
      add(complete, one.id)
      add(fences, one.fence)
      add(results, one.id, one.text)
      answers[i], is_told[one.id] = 'complete', true
    else
      answers[i], is_told[one.id] = settle(held, one.verdict, one.seconds, one.text), true
    end
  end
  many('HSET', RESULTS, results)
  done(complete, fences)
  return answers
end

-- Puts all jobs or none. A repeated put, whose first reply was lost, is recognized by its token until its job has
-- ended.
function commands.put()
  local jobs, known = {}, {}
  for i = 1, tonumber(arg()) do
    local one = { id = arg(), value = arg(), seconds = tonumber(arg()), skips = arg() == '1', token = arg() }
    one.exists = known[one.id] or call('HEXISTS', VALUES, one.id) == 1
    local is_again = not known[one.id] and job(one.id).token == one.token
    if one.exists and not one.skips and not is_again then return { 'exists', one.id } end
    known[one.id], jobs[i] = true, one
  end
  for _, one in ipairs(jobs) do
    if not one.exists then
      call('HSET', VALUES, one.id, one.value)
      keep({ id = one.id, attempts = 0, losses = 0, token = one.token })
      if one.seconds > 0 then delay(one.id, one.seconds) else call('LPUSH', PENDING, one.id) end
    end
  end
  return { 'put' }
end

-- Takes back what an instance held when it died.
function commands.recover()
  local holder, kept = arg(), {}
  for _, fence in ipairs(args()) do kept[fence] = true end
  return { release(function(one) return one.holder == holder and not kept[one.fence] end, lost) }
end

-- Looks at jobs that other clients left in working. One with a result is done; one that has been there for too long by
-- the server's clock waits again. Gives where the next part begins.
local function tidy_others(stale, from)
  local window, gone = call('ZRANGE', WORKING, from, from + STRETCH - 1, 'WITHSCORES'), 0
  for i = 1, #window, 2 do
    local id, score = window[i], window[i + 1]
    if not call('ZSCORE', UNTIL, id) then
      local known, since = string.match(call('HGET', SEEN, id) or '', '^(%S+) (%S+)$')
      local is_stale = known == score and now - since >= stale
      if call('HEXISTS', RESULTS, id) == 1 then
        done({ id }, { 0 })
      elseif is_stale then
        lost(job(id))
      elseif known ~= score then
        call('HSET', SEEN, id, score .. ' ' .. string.format('%.6f', now))
      end
      if not call('ZSCORE', WORKING, id) then gone = gone + 1 end
    end
  end
  if call('HLEN', SEEN) > call('ZCARD', WORKING) then
    -- Other clients take their own ids out of working.
    local ids, left = call('HKEYS', SEEN), {}
    for i, score in ipairs(many('ZMSCORE', WORKING, ids)) do
      if not score then add(left, ids[i]) end
    end
    many('HDEL', SEEN, left)
  end
  return #window == 2 * STRETCH and from + STRETCH - gone or -1
end

function commands.tidy()
  local stale, kept, from = tonumber(arg()), tonumber(arg()), tonumber(arg())
  for _, id in ipairs(call('ZRANGEBYSCORE', UNTIL, '-inf', now, 'LIMIT', 0, STRETCH)) do
    local one = job(id)
    if not is_ours(id, call('ZSCORE', UNTIL, id), call('ZSCORE', WORKING, id)) then
      call('ZREM', UNTIL, id)
      one.fence = nil
      keep(one)
    elseif one.fence then
      lost(one)
    else
      back(one, 0)
    end
  end
  if from >= 0 then from = tidy_others(stale, from) end
  local old = kept > 0 and call('ZRANGEBYSCORE', DONE, '-inf', now - kept, 'LIMIT', 0, STRETCH) or {}
  for _, member in ipairs(old) do
    local id = string.match(member, '^(.*) %d+$')
    call('ZREM', DONE, member)
    if call('HDEL', RESULTS, id) == 1 then call('HDEL', VALUES, id) end
  end
  local due = call('ZRANGE', UNTIL, 0, 0, 'WITHSCORES')[2]
  return { from, due and string.format('%.6f', math.max(due - now, 0)) or '' }
end

for key, kind in pairs(KINDS) do
  local found = call('TYPE', key).ok
  if found ~= 'none' and found ~= kind then return { 'odd', key, found, kind } end
end
-- A full Redis refuses a script's first write if that needs memory. Only a put may be refused, so other commands begin
-- with a DEL.
if ARGV[1] ~= 'put' then call('DEL', 'taskvisor:nothing') end
return commands[ARGV[1]]()
