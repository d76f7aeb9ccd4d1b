-- Keys of a wrong type, left by another program. Lists skip them; a request about a job whose key has a wrong type is
-- answered with that type.

-- The refusal if a key has another type than this one; nil if it has this one, or does not exist.
local function odd_key(key, kind)
  local has = call('TYPE', key).ok
  if has ~= kind and has ~= 'none' then return {'no', 'kind', key, has} end
end

local function odd_job(jid) return odd_key('ql:j:' .. jid, 'hash') end

-- Keys that all jobs share. With one of a wrong type no job can be put, and a put must see that before it writes.
local function odd_shared_key()
  local SHARED = {
    ['ql:completed'] = 'zset', ['ql:queues'] = 'zset', ['ql:taskvisor:jobs'] = 'zset', ['ql:taskvisor:order'] = 'hash',
  }
  for key, kind in pairs(SHARED) do
    local refusal = odd_key(key, kind)
    if refusal then return refusal end
  end
end

-- Calls of a supervisor that holds jobs: they come all the time, and look at each key by themselves.
local is_of_holder = command == 'taskvisor.fetch' or command == 'taskvisor.settle' or command == 'taskvisor.renew'

if not is_of_holder then
  -- For each command, where the ids of jobs begin among its arguments: there is one, or as many as the argument before
  -- says.
  local ONE = {
    before = 3, depend_off = 3, depend_on = 3, discard = 3, get = 3, place = 3, prioritize = 3, retry = 3,
    set_data = 3, state = 3, tag = 3, tags = 3, track = 3, untrack = 3,
  }
  local name = command:sub(11)
  local first, last = ONE[name], ONE[name]
  if name == 'looked_at' then first, last = 4, 3 + (number(args[3]) or 0) end
  for i = first or 1, last or 0 do
    local refusal = odd_job(args[i])
    if refusal then return refusal end
  end

  -- Lists go by the index of all jobs: without it they would hide all.
  local LISTS = {
    adopt = true, count_tasks = true, find = true, list = true, place = true, sizes = true, sweep = true,
  }
  local refusal = LISTS[name] and odd_key('ql:taskvisor:jobs', 'zset')
  if refusal then return refusal end

  local LOOKS = {
    adopt = true, classes = true, fleet = true, get = true, groups = true, held_groups = true, list = true,
    options = true, queues = true, scan = true, sizes = true, stats = true, sweep = true, ['recur.list'] = true,
    ['recur.show'] = true,
  }
  -- The replies of Redis for keys that do not exist.
  local ZERO, LIST, SCANNED = 0, {}, {'0', {}}
  local NOTHING = {
    HLEN = ZERO, LLEN = ZERO, SCARD = ZERO, SISMEMBER = ZERO, ZCARD = ZERO, ZCOUNT = ZERO,
    HGETALL = LIST, LRANGE = LIST, SMEMBERS = LIST, SRANDMEMBER = LIST, ZRANGE = LIST, ZRANGEBYSCORE = LIST,
    ZREVRANGE = LIST, ZREVRANGEBYSCORE = LIST, HSCAN = SCANNED, SSCAN = SCANNED, ZSCAN = SCANNED,
    HGET = false, LINDEX = false, ZSCORE = false,
  }
  local function nothing(what, ...)
    if what ~= 'HMGET' and what ~= 'ZMSCORE' then return NOTHING[what] end
    local values = {}
    for i = 1, select('#', ...) do values[i] = false end
    return values
  end
  if LOOKS[name] then
    function call(what, key, ...)
      local answer = redis.pcall(what, key, ...)
      if type(answer) ~= 'table' or not answer.err then return answer end
      local instead = nil
      if answer.err:find('WRONGTYPE', 1, true) then instead = nothing(what, ...) end
      -- Called again, to get the error.
      if instead == nil then return redis.call(what, key, ...) end
      return instead
    end
  end
end
