-- Queues and workers: how many jobs wait and run, the statistics of a day, which queues are paused.

-- The counts of a queue.
local counts
if command == 'queues' then
  function counts(name)
    local key = 'ql:q:' .. name
    free_scheduled(name, 1e9)
    local stalled = call('ZCOUNT', key .. '-locks', 0, now)
    return {
      name = name,
      waiting = call('ZCARD', key .. '-work'),
      running = call('ZCARD', key .. '-locks') - stalled,
      stalled = stalled,
      scheduled = call('ZCARD', key .. '-scheduled'),
      depends = call('ZCARD', key .. '-depends'),
      recurring = call('ZCARD', key .. '-recur'),
      paused = call('SISMEMBER', 'ql:paused_queues', name) == 1,
    }
  end

  if args[3] then return encode(counts(args[3])) end
  local all = call('ZRANGE', 'ql:queues', 0, -1)
  for i, name in ipairs(all) do all[i] = counts(name) end
  return encode(all)
end

if command == 'length' then
  local key = 'ql:q:' .. need(args[3], 'Length(): Arg "queue" missing')
  return call('ZCARD', key .. '-locks') + call('ZCARD', key .. '-work') + call('ZCARD', key .. '-scheduled')
end

if command == 'queue.forget' then
  call_many('ZREM', 'ql:queues', args_from(3))
  return
end

if command == 'pause' then
  call_many('SADD', 'ql:paused_queues', args_from(3))
  return
end

if command == 'unpause' then
  call_many('SREM', 'ql:paused_queues', args_from(3))
  for _, queue in ipairs(args_from(3)) do call('PUBLISH', 'ql:taskvisor', queue) end
  return
end

if command == 'stats' then
  local queue, date = unpack(args, 3, 4)
  need(queue, 'Stats(): Arg "queue" missing')
  local when = need(number(date), 'Stats(): Arg "date" missing or not a number: ', date)
  local buckets = {}
  for _, range in ipairs({{'s', 0, 59}, {'m', 1, 59}, {'h', 1, 23}, {'d', 1, 6}}) do
    for i = range[2], range[3] do buckets[#buckets + 1] = range[1] .. i end
  end
  local function of(kind)
    local key = figures(kind, queue, when)
    local total, mean, vk = unpack(call('HMGET', key, 'total', 'mean', 'vk'))
    local histogram = call('HMGET', key, unpack(buckets))
    for i, value in ipairs(histogram) do histogram[i] = number(value or 0) or 0 end
    total, mean, vk = number(total or 0) or 0, number(mean or 0) or 0, number(vk or 0) or 0
    return {count = total, mean = mean, std = total > 1 and math.sqrt(vk / (total - 1)) or 0, histogram = histogram}
  end
  local retries, failed, failures =
    unpack(call('HMGET', figures('stats', queue, when), 'retries', 'failed', 'failures'))
  return encode({
    retries = number(retries or 0) or 0, failed = number(failed or 0) or 0, failures = number(failures or 0) or 0,
    wait = of('wait'), run = of('run'),
  })
end

if command == 'workers' then
  local gone = clock - option('max-worker-age', 86400)
  for _, name in ipairs(call('ZRANGEBYSCORE', 'ql:workers', '-inf', gone)) do
    call('DEL', 'ql:w:' .. name .. ':jobs')
  end
  call('ZREMRANGEBYSCORE', 'ql:workers', '-inf', gone)
  -- No lease is longer than a hundred days.
  local far = clock + 8640000
  if args[3] then
    local key = 'ql:w:' .. args[3] .. ':jobs'
    return encode({
      jobs = call('ZREVRANGEBYSCORE', key, far, now), stalled = call('ZREVRANGEBYSCORE', key, now, 0),
    })
  end
  local all = call('ZREVRANGE', 'ql:workers', 0, -1)
  for i, name in ipairs(all) do
    local key = 'ql:w:' .. name .. ':jobs'
    all[i] = {name = name, jobs = call('ZCOUNT', key, now, far), stalled = call('ZCOUNT', key, 0, now)}
  end
  return encode(all)
end

if command == 'worker.deregister' then
  call_many('ZREM', 'ql:workers', args_from(3))
  return
end
