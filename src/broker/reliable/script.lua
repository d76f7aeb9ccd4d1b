-- The reliable queue. values, pending, working and results are the tutorial's; what begins with taskvisor: is ours.
-- ARGV: a command, the time as the caller believes it to be (only the server's own counts), what the command needs.
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
-- How many jobs a fetch looks at that gives none of them; after how many deaths of its holder a job is dead; how many
-- entries one tidying looks at.
local LOOK, LOSSES, STRETCH = 1000, 5, 500

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

local function job(id)
  local one = cjson.decode(call('HGET', JOBS, id) or '{"attempts": 0, "losses": 0}')
  one.id = id
  return one
end

local function keep(one)
  if not one.fence and not one.token and one.attempts + one.losses == 0 then return call('HDEL', JOBS, one.id) end
  call('HSET', JOBS, one.id, cjson.encode(one))
end

-- In working until then. A score in the future: no client's tidying takes it for stale.
local function hold(id, seconds)
  local till = string.format('%.6f', now + seconds)
  call('ZADD', UNTIL, till, id)
  call('ZADD', WORKING, till, id)
end

local function let_go(id)
  call('ZREM', WORKING, id)
  call('ZREM', UNTIL, id)
end

local function forget(id)
  let_go(id)
  call('HDEL', JOBS, id)
  call('HDEL', SEEN, id)
end

local function done(id, fence)
  forget(id)
  call('ZADD', DONE, string.format('%.6f', now), id .. ' ' .. fence)
  return 'complete'
end

-- Whether it is in working by us. What another client has tidied away, and nobody has taken, is ours again.
local function is_ours(id)
  local till, score = call('ZSCORE', UNTIL, id), call('ZSCORE', WORKING, id)
  if not till or score then return till and till == score end
  return call('LREM', PENDING, 1, id) > 0
end

-- It waits, in front of the others. What has a result is done, whoever wrote that.
local function back(one, seconds)
  if call('HEXISTS', RESULTS, one.id) == 1 then return done(one.id, 0) end
  one.fence, one.holder, one.fetch = nil, nil, nil
  keep(one)
  if seconds > 0 then
    hold(one.id, seconds)
    return 'delayed'
  end
  let_go(one.id)
  call('HDEL', SEEN, one.id)
  call('RPUSH', PENDING, one.id)
  return 'waiting'
end

local function bury(one, why)
  forget(one.id)
  call('HSET', DEAD, one.id, (one.fence or 0) .. ' ' .. why)
  return 'dead'
end

-- Nobody has said how it ended.
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
  -- Each goes in front of the others: the one that was taken first comes last, and is the first again.
  table.sort(held, function(one, other) return tonumber(one.fence) > tonumber(other.fence) end)
  local count = 0
  for _, one in ipairs(held) do
    if is_ours(one.id) then
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

function commands.fetch()
  local count, lease, holder, fetch = tonumber(arg()), tonumber(arg()), arg(), arg()
  local unheard, only, except = args(), args(), args()
  if #unheard > 0 then
    release(function(one) return is_one_of(unheard, one.fetch) end, function(one) unspent(one, 0) end)
  end
  local given, passed, dropped = {}, 0, 0
  local fence = math.max(tonumber(call('HGET', COUNTS, 'fence') or 0), math.floor(now * 1e6))
  for _ = 1, count + LOOK do
    local id = #given < count and call('LINDEX', PENDING, -1 - passed)
    if not id then break end
    local value = call('HGET', VALUES, id)
    local is_done, till = call('HEXISTS', RESULTS, id) == 1, call('ZSCORE', UNTIL, id)
    if value and not is_done and not is_wanted(value, only, except) then
      passed = passed + 1
    else
      call('LREM', PENDING, -1, id)
      if is_done then
        if not till then done(id, 0) end
      elseif not value then
        dropped = dropped + 1
      elseif call('ZSCORE', WORKING, id) then
        -- It runs, and is here a second time.
      elseif till and tonumber(till) > now then
        call('ZADD', WORKING, till, id) -- The same, tidied away by another client.
      else
        fence = fence + 1
        local one = job(id)
        one.attempts, one.fence, one.holder, one.fetch = one.attempts + 1, string.format('%.0f', fence), holder, fetch
        keep(one)
        hold(id, lease)
        call('HDEL', DEAD, id)
        given[#given + 1] = { id, one.fence, one.attempts, value }
      end
    end
  end
  if #given > 0 then call('HSET', COUNTS, 'fence', string.format('%.0f', fence)) end
  if dropped > 0 then call('HINCRBY', COUNTS, 'dropped', dropped) end
  return { given, dropped }
end

function commands.renew()
  local seconds, answers = tonumber(arg()), {}
  for i = 1, tonumber(arg()) do
    local id, fence = arg(), arg()
    local is_held = job(id).fence == fence and is_ours(id)
    if is_held then hold(id, seconds) end
    answers[i] = is_held and 1 or 0
  end
  return answers
end

local function settle(one, verdict, seconds, text)
  if verdict == 'complete' then
    call('HSET', RESULTS, one.id, text)
    return done(one.id, one.fence)
  elseif verdict == 'dead' then
    return bury(one, text)
  elseif verdict == 'canceled' then
    forget(one.id)
    call('HDEL', VALUES, one.id)
    return verdict
  elseif verdict == 'release' then
    if text ~= '' then one.losses = one.losses + 1 end
    return unspent(one, seconds)
  elseif verdict == 'next' then
    one.attempts, one.losses = 0, 0
  end
  return back(one, seconds)
end

-- An end that is told a second time, as nobody heard the answer to the first.
local function told_before(id, fence, verdict)
  if verdict == 'complete' and call('ZSCORE', DONE, id .. ' ' .. fence) then return verdict end
  local dead = verdict == 'dead' and call('HGET', DEAD, id)
  return dead and string.match(dead, '^%S+') == fence and verdict or 'not_ours'
end

function commands.settle()
  local answers = {}
  for i = 1, tonumber(arg()) do
    local one, fence, verdict, seconds, text = job(arg()), arg(), arg(), tonumber(arg()), arg()
    local is_held = one.fence == fence and is_ours(one.id)
    answers[i] = is_held and settle(one, verdict, seconds, text) or told_before(one.id, fence, verdict)
  end
  return answers
end

-- All or none. A put that is sent again, as nobody heard the answer, is known by its token until its job has ended.
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
      if one.seconds > 0 then hold(one.id, one.seconds) else call('LPUSH', PENDING, one.id) end
    end
  end
  return { 'put' }
end

-- What an instance held when it died.
function commands.recover()
  local holder, kept = arg(), {}
  for _, fence in ipairs(args()) do kept[fence] = true end
  return { release(function(one) return one.holder == holder and not kept[one.fence] end, lost) }
end

-- What other clients left in working: one with a result is done; one that has been there for too long, by our clock and
-- whatever theirs says, waits again. Gives where the next stretch begins.
local function tidy_others(stale, from)
  local window, gone = call('ZRANGE', WORKING, from, from + STRETCH - 1, 'WITHSCORES'), 0
  for i = 1, #window, 2 do
    local id, score = window[i], window[i + 1]
    if not call('ZSCORE', UNTIL, id) then
      local known, since = string.match(call('HGET', SEEN, id) or '', '^(%S+) (%S+)$')
      local is_stale = known == score and now - since >= stale
      if call('HEXISTS', RESULTS, id) == 1 then
        done(id, 0)
      elseif is_stale then
        lost(job(id))
      elseif known ~= score then
        call('HSET', SEEN, id, score .. ' ' .. string.format('%.6f', now))
      end
      if not call('ZSCORE', WORKING, id) then gone = gone + 1 end
    end
  end
  if call('HLEN', SEEN) > call('ZCARD', WORKING) then call('DEL', SEEN) end
  return #window == 2 * STRETCH and from + STRETCH - gone or -1
end

function commands.tidy()
  local stale, kept, from = tonumber(arg()), tonumber(arg()), tonumber(arg())
  for _, id in ipairs(call('ZRANGEBYSCORE', UNTIL, '-inf', now, 'LIMIT', 0, STRETCH)) do
    local one = job(id)
    if not is_ours(id) then
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
-- A Redis that is full refuses a script's first write if that takes memory: a put alone is to be refused.
if ARGV[1] ~= 'put' then call('DEL', 'taskvisor:nothing') end
return commands[ARGV[1]]()
