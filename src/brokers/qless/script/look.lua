-- get, multiget, jobs, track, failed, unfail: jobs by id, by state, by tracking, by failure.

if command == 'get' then
  local job = job_of(need(args[3], 'Get(): Arg "jid" missing'))
  return job and job_text(job, call('ZSCORE', 'ql:tracked', job.jid) ~= false)
end

if command == 'multiget' then return jobs_text(args_from(3)) end

if command == 'jobs' then
  local state = need(args[3], 'Jobs(): Arg "state" missing')
  local at = state == 'complete' and 4 or 5
  local queue = need(state == 'complete' or args[4], 'Jobs(): Arg "queue" missing')
  local offset = floor(need(number(args[at] or 0), 'Jobs(): Arg "offset" not a number: ', args[at]))
  local most = floor(need(number(args[at + 1] or 25), 'Jobs(): Arg "count" not a number: ', args[at + 1]))
  if state == 'complete' then
    return call('ZREVRANGEBYSCORE', 'ql:completed', '+inf', '-inf', 'LIMIT', offset, most)
  end
  local key, low, high = 'ql:q:' .. queue .. '-', '-inf', '+inf'
  if state == 'running' then
    key, low = key .. 'locks', now
  elseif state == 'stalled' then
    key, high = key .. 'locks', now
  elseif state == 'scheduled' then
    key = key .. 'scheduled'
    free_scheduled(queue, 1e9)
  elseif state == 'depends' then
    key = key .. 'depends'
  elseif state == 'recurring' then
    key = key .. 'recur'
  else
    error('Jobs(): Unknown type "' .. state .. '"')
  end
  return call('ZRANGEBYSCORE', key, low, high, 'LIMIT', offset, most)
end

-- The tracked jobs. The id of a job that is gone is shown as long as complete jobs are kept, and at least once.
if command == 'track' and not args[3] then
  local texts, gone, age = {}, {}, option('jobs-history', 604800)
  local tracked = call('ZRANGE', 'ql:tracked', 0, -1, 'WITHSCORES')
  for i = 1, #tracked, 2 do
    local job = job_of(tracked[i])
    if job then
      texts[#texts + 1] = job_text(job, true)
    else
      gone[#gone + 1] = tracked[i]
      if tonumber(tracked[i + 1]) < clock - age then call('ZREM', 'ql:tracked', tracked[i]) end
    end
  end
  return '{"jobs":' .. texts_of(texts) .. ',"expired":' .. encode(gone) .. '}'
end

if command == 'track' then
  local how, jid = unpack(args, 3, 4)
  if how ~= 'track' and how ~= 'untrack' then error('Track(): Unknown action "' .. how .. '"') end
  need(jid, 'Track(): Arg "jid" missing')
  if how == 'track' and not fields(jid, 'state') then error('Track(): Job does not exist') end
  call('PUBLISH', 'ql:' .. how, jid)
  return encode(how == 'track' and call('ZADD', 'ql:tracked', now, jid) or call('ZREM', 'ql:tracked', jid))
end

if command == 'failed' and not args[3] then
  local counts = {}
  for _, group in ipairs(call('SMEMBERS', 'ql:failures')) do counts[group] = call('LLEN', 'ql:f:' .. group) end
  return encode(counts)
end

if command == 'failed' then
  local group, start, limit = unpack(args, 3, 5)
  local from = floor(need(number(start or 0), 'Failed(): Arg "start" is not a number: ', start))
  local most = floor(need(number(limit or 25), 'Failed(): Arg "limit" is not a number: ', limit))
  local key = 'ql:f:' .. group
  return encode({
    total = call('LLEN', key),
    jobs = most > 0 and call('LRANGE', key, from, from + most - 1) or {},
  })
end

-- Puts the jobs back that have been longest in a group. Gives how many.
if command == 'unfail' then
  local queue, group, most = unpack(args, 3, 5)
  need(queue, 'Unfail(): Arg "queue" missing')
  need(group, 'Unfail(): Arg "group" missing')
  most = math.min(floor(need(number(most or 25), 'Unfail(): Arg "count" not a number: ', most)), 1e9)
  if most <= 0 then return 0 end
  local key, moved, broken = 'ql:f:' .. group, 0, {}
  local function put_back(jid)
    local state, from, priority, retries, failure = fields(jid, 'state', 'queue', 'priority', 'retries', 'failure')
    if state ~= 'failed' then return end
    history(jid, clock, 'put', '{"q":' .. encode(queue) .. '}')
    enter_work(jid, queue, priority, clock)
    call('HSET', 'ql:j:' .. jid, 'state', 'waiting', 'worker', '', 'expires', '0', 'queue', queue,
      'remaining', retries or '0')
    moved = moved + 1
    call('HDEL', 'ql:j:' .. jid, 'grace')
    local of = forget_failure(from, failure)
    if of ~= group then remove_failure(jid, of) end
    news('retried', jid, queue, 'waiting')
  end
  local jids = call('LRANGE', key, -most, -1)
  for _, jid in ipairs(jids) do
    if not pcall(put_back, jid) and try('HGET', 'ql:j:' .. jid, 'state') == 'failed' then broken[#broken + 1] = jid end
  end
  -- All at once: a search for each would read the whole list. Jobs that cannot be put back stay in the group, and do
  -- not block the others.
  call('LTRIM', key, 0, -1 - #jids)
  call_many('LPUSH', key, broken)
  if call('EXISTS', key) == 0 then call('SREM', 'ql:failures', group) end
  if moved > 0 then call('PUBLISH', 'ql:taskvisor', queue) end
  return moved
end
