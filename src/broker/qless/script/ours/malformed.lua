-- Keys of a wrong type, left by another program. Lists skip them; a request about a job whose key has a wrong type is
-- answered with that type.

-- The refusal if something other than a job is stored under its key; nil if there is a job, or nothing.
local function odd_job(jid)
  local kind = call('TYPE', 'ql:j:' .. jid).ok
  if kind ~= 'hash' and kind ~= 'none' then return {'no', 'kind', 'ql:j:' .. jid, kind} end
end

do
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

  local LOOKS = {
    adopt = true, classes = true, failed = true, fleet = true, get = true, list = true, options = true, queues = true,
    stats = true, sweep = true, ['recur.list'] = true, ['recur.show'] = true,
  }
  -- The replies of Redis for keys that do not exist.
  local ZERO, LIST = 0, {}
  local NOTHING = {
    HLEN = ZERO, LLEN = ZERO, SCARD = ZERO, SISMEMBER = ZERO, ZCARD = ZERO, ZCOUNT = ZERO,
    HGETALL = LIST, LRANGE = LIST, SMEMBERS = LIST, SRANDMEMBER = LIST, ZRANGE = LIST, ZRANGEBYSCORE = LIST,
    ZREVRANGE = LIST, ZREVRANGEBYSCORE = LIST, HGET = false, LINDEX = false, ZSCORE = false,
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
