-- Gives jobs to supervisors, and keeps their leases.

local function is_one_of(names, class)
  for _, name in ipairs(names) do
    local start = string.match(name, '^(.*)%*$')
    if name == class or start and string.sub(class, 1, #start) == start then return true end
  end
  return false
end

local function is_wanted(class, only, except)
  return class and (#only == 0 or is_one_of(only, class)) and not is_one_of(except, class)
end

-- The jobs among the first ones whose class is not known here, with their values: only programs read values.
local function unjudged(most)
  local found, bytes, ids = {}, 0, call('LRANGE', PENDING, -most, -1)
  local classes = many('HMGET', CLASSES, ids)
  for i = #ids, 1, -1 do
    local value = not classes[i] and bytes < BYTES and call('HGET', VALUES, ids[i])
    if value then
      add(found, { ids[i], value })
      bytes = bytes + #value
    end
  end
  return found
end

-- Keeps the classes of jobs that still wait, from a list of ids and classes: another pool may have taken the others.
local function keep_classes(judged)
  local ids, kept = {}, {}
  for i = 1, #judged, 2 do add(ids, judged[i]) end
  local results, scores = many('HMGET', RESULTS, ids), many('ZMSCORE', WORKING, ids)
  for i, id in ipairs(ids) do
    if not results[i] and not scores[i] then add(kept, id, judged[2 * i]) end
  end
  many('HSET', CLASSES, kept)
end

-- Gives the jobs their fences and leases.
local function grant(jobs, seconds)
  local ids, kept = {}, {}
  for i, one in ipairs(jobs) do
    ids[i] = one.id
    add(kept, one.id, text(one))
  end
  many('HSET', JOBS, kept)
  many('HDEL', DEAD, ids)
  many('HDEL', CLASSES, ids)
  lease(ids, seconds)
end

-- Removes these ids from pending; `passed` is the number of skipped ids behind them.
local function take_out(ids, passed)
  if passed == 0 then return call('LTRIM', PENDING, 0, -1 - #ids) end
  for _, id in ipairs(ids) do call('LREM', PENDING, -1, id) end
end

-- Takes back the jobs of fetches whose replies were lost. Says whether `fetch` is one of them: one that arrives only
-- now, by an old connection, must give nothing.
local function is_unheard(fetch, unheard)
  if #unheard > 0 then
    release(function(one) return is_one_of(unheard, one.fetch) end, function(one) unspent(one, 0) end)
    local scored = {}
    for _, name in ipairs(unheard) do add(scored, string.format('%.0f', now), name) end
    many('ZADD', UNHEARD, scored)
    call('ZREMRANGEBYSCORE', UNHEARD, '-inf', now - 3600)
    call('EXPIRE', UNHEARD, 3600)
  end
  return call('ZSCORE', UNHEARD, fetch)
end

-- Gives jobs, the number of ids that were dropped, jobs to judge, and how many wait. A pool that takes some classes
-- gets no job before the next fetch has named the classes of those to judge (`judged`).
function commands.fetch()
  local count, seconds, holder, fetch = tonumber(arg()), tonumber(arg()), arg(), arg()
  local unheard, only, except, judged = args(), args(), args(), args()
  if is_unheard(fetch, unheard) then return { {}, 0, {}, call('LLEN', PENDING) } end
  keep_classes(judged)
  local is_picky = #only + #except > 0
  local unknown = is_picky and unjudged(count + LOOK) or {}
  if #unknown > 0 then return { {}, 0, unknown, 0 } end
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
    local classes = is_picky and call('HMGET', CLASSES, unpack(ids))
    for i = #ids, 1, -1 do
      local id, value, till = ids[i], values[i], tills[i]
      if #given == count or bytes >= BYTES then break end
      if value and not results[i] and classes and not is_wanted(classes[i], only, except) then
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
  return { given, dropped, {}, call('LLEN', PENDING) }
end

function commands.renew()
  local seconds, answers, held = tonumber(arg()), {}, {}
  for i = 1, tonumber(arg()) do
    local id, fence = arg(), arg()
    local one = job(id)
    local is_held = not one.is_odd and holds(one, fence)
    if is_held then add(held, id) end
    answers[i] = one.is_odd and odd(id) or not is_held and 'lost' or one.canceling and 'canceling' or 'renewed'
  end
  lease(held, seconds)
  return answers
end
