-- Puts back what is due, removes what is old, and runs the command.

-- Largest result, in bytes, that `ended` returns for a job that ended at another host.
local LARGEST = 65536

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

-- For each job: `complete` with its result, `failed` with its dead letter, `gone` if nothing is known of it, or nothing
-- if it has not ended. A dead letter that was requeued counts as not ended.
function commands.ended()
  local answers, ids = {}, args()
  local results, dead, values = many('HMGET', RESULTS, ids), many('HMGET', DEAD, ids), many('HMGET', VALUES, ids)
  for i, id in ipairs(ids) do
    if results[i] then
      answers[i] = { 'complete', #results[i] <= LARGEST and results[i] or '' }
    elseif dead[i] and not call('ZSCORE', WORKING, id) and not call('LPOS', PENDING, id) then
      answers[i] = { 'failed', string.match(dead[i], '^%S+ (.*)$') or '' }
    else
      answers[i] = is_gone(id, values[i]) and { 'gone' } or {}
    end
  end
  return answers
end

-- Gives where the next part begins, in how many seconds something is due, if anything is, and the mark of these data.
-- After a silence of the server no lease is over: those who could not renew do so first. An order that waited in the
-- server ends with one.
function commands.tidy()
  local stale, kept, from = tonumber(arg()), tonumber(arg()), tonumber(arg())
  local is_settling = arg() == 'settling' or now - tonumber(ARGV[2]) > 3
  call('HSETNX', COUNTS, 'mark', string.format('%.6f', now))
  for _, id in ipairs(call('ZRANGEBYSCORE', UNTIL, '-inf', now, 'LIMIT', 0, STRETCH)) do
    local one = job(id)
    if not is_ours(id, call('ZSCORE', UNTIL, id), call('ZSCORE', WORKING, id)) then
      call('ZREM', UNTIL, id)
      one.fence = nil
      keep(one)
    elseif not one.fence then
      back(one, 0)
    elseif not is_settling then
      lost(one)
    end
  end
  if from >= 0 and not is_settling then from = tidy_others(stale, from) end
  local old = kept > 0 and call('ZRANGEBYSCORE', DONE, '-inf', now - kept, 'LIMIT', 0, STRETCH) or {}
  for _, member in ipairs(old) do
    local id = string.match(member, '^(.*) %d+$')
    call('ZREM', DONE, member)
    if call('HDEL', RESULTS, id) == 1 then call('HDEL', VALUES, id) end
  end
  if call('HLEN', CLASSES) > call('LLEN', PENDING) + STRETCH then call('DEL', CLASSES) end
  local due = from >= 0 and now or call('ZRANGE', UNTIL, 0, 0, 'WITHSCORES')[2]
  if is_settling then due = false end
  return { from, due and string.format('%.6f', math.max(due - now, 0)) or false, call('HGET', COUNTS, 'mark') }
end

for key, kind in pairs(KINDS) do
  local found = call('TYPE', key).ok
  if found ~= 'none' and found ~= kind then
    return redis.error_reply("TASKVISOR the key '" .. key .. "' there is a " .. found .. ' of another program and '
      .. 'not the ' .. kind .. ' of a reliable queue: give the queue a database of its own, or remove the key '
      .. '(redis-cli DEL ' .. key .. ')')
  end
end
-- A full Redis refuses a script's first write if that needs memory. Only a put may be refused, so other commands begin
-- with a DEL.
if ARGV[1] ~= 'put' and ARGV[1] ~= 'ended' then call('DEL', 'taskvisor:nothing') end
return commands[ARGV[1]]()
