-- The script of the reliable queue. The keys values, pending, working and results are the tutorial's; those that begin
-- with taskvisor: are ours. ARGV: a command, the caller's time (only the server's own counts), the command's arguments.
local VALUES, PENDING, WORKING, RESULTS = 'values', 'pending', 'working', 'results'
-- Id -> in JSON attempts, losses, token of its put, who has it (fence, holder, fetch), and whether that is canceled.
local JOBS = 'taskvisor:jobs'
local UNTIL = 'taskvisor:until' -- id -> the score that we gave it in working: the end of its lease, or of its delay
local DEAD = 'taskvisor:dead' -- id -> fence, and in JSON why it is not tried again
local DONE = 'taskvisor:done' -- id and fence -> when it completed
local SEEN = 'taskvisor:seen' -- id in working of another client -> its score there, and when we saw that first
local CLASSES = 'taskvisor:classes' -- id in pending -> the class of its value, as a program reads it: a cache
local UNHEARD = 'taskvisor:unheard' -- name of a fetch whose reply was lost -> when that was said
local COUNTS = 'taskvisor:counts' -- the latest fence; how many ids had no value; the mark of these data
local KINDS = {
  [VALUES] = 'hash', [PENDING] = 'list', [WORKING] = 'zset', [RESULTS] = 'hash', [JOBS] = 'hash', [UNTIL] = 'zset',
  [DEAD] = 'hash', [DONE] = 'zset', [SEEN] = 'hash', [CLASSES] = 'hash',
  [COUNTS] = 'hash', [UNHEARD] = 'zset',
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

-- The entry of a job; `is_odd` if another program has spoiled it, and nobody knows who has the job.
local function read(id, text)
  local one = { attempts = 0, losses = 0 }
  if text then
    local is_fine, found = pcall(cjson.decode, text)
    is_fine = is_fine and type(found) == 'table' and tonumber(found.attempts) and tonumber(found.losses)
    if is_fine then one = found else one.is_odd = true end
  end
  one.id = id
  return one
end

-- The answer for a job of a batch whose entry is spoiled. The other jobs of the batch get their own answers.
local function odd(id)
  return "wrong: TASKVISOR another program has spoiled the entry '" .. id .. "' of the hash " .. JOBS
    .. ': remove it (redis-cli HDEL ' .. JOBS .. ' ' .. id .. ')'
end

local function job(id) return read(id, call('HGET', JOBS, id)) end

local function text(one)
  return cjson.encode({
    attempts = one.attempts, losses = one.losses, token = one.token,
    fence = one.fence, holder = one.holder, fetch = one.fetch, canceling = one.canceling,
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

-- What may fail comes first: until the last two the jobs are ours.
local function let_go(ids)
  many('HDEL', SEEN, ids)
  many('ZREM', WORKING, ids)
  many('ZREM', UNTIL, ids)
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

-- Whether nothing is known of a job, which has no result: it was removed, or these data were. `value` is what it has.
local function is_gone(id, value)
  return not value and not call('ZSCORE', WORKING, id) and not call('LPOS', PENDING, id)
end

-- Ends a job that a person has canceled.
local function cancel_one(one)
  forget({ one.id })
  call('HDEL', VALUES, one.id)
  return 'canceled'
end

-- Puts a job back, in front of the others. A job with a result is done, even if another client wrote the result.
local function back(one, seconds)
  if call('HEXISTS', RESULTS, one.id) == 1 then return done({ one.id }, { 0 }) end
  if one.canceling then return cancel_one(one) end
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
  call('HSET', DEAD, one.id, (one.fence or 0) .. ' ' .. why)
  forget({ one.id })
end

-- The holder of the job died without an outcome.
local function lost(one)
  one.attempts, one.losses = math.max(one.attempts - 1, 0), one.losses + 1
  if one.losses < LOSSES or one.canceling then return back(one, 0) end
  bury(one, cjson.encode({ error = 'interrupted: whoever ran it died, ' .. one.losses .. ' times' }))
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

local commands = {}
