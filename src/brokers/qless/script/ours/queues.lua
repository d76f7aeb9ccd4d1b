-- Options, statistics, and the removal of queues.

-- Reads, sets and unsets options. A change is published: a raised limit may let more jobs run.
if command == 'taskvisor.options' then return call('HGETALL', 'ql:config') end
if command == 'taskvisor.configure' then
  local set, unset = take_list(), take_list()
  for i = 1, #set, 2 do
    call('HSET', 'ql:config', set[i], set[i + 1])
    tell('{"option":' .. encode(set[i]) .. ',"event":"config_set","value":' .. encode(set[i + 1]) .. '}')
  end
  for _, name in ipairs(unset) do
    call('HDEL', 'ql:config', name)
    tell('{"event":"config_unset","option":' .. encode(name) .. '}')
  end
  return 1
end

-- The statistics of a queue on a day, today if none is named.
if command == 'taskvisor.stats' then
  local queue, day = take(), number(take())
  if not call('ZSCORE', 'ql:queues', queue) then return no('queue', queue) end
  day = day or floor(clock / 86400)
  local function of(kind)
    return figures(kind, queue, day * 86400)
  end
  return {
    format('%.0f', day), call('HGETALL', of('wait')), call('HGETALL', of('run')),
    call('HMGET', of('stats'), 'retries', 'failures', 'failed'),
  }
end

-- Removes an empty queue. The caller has checked that it is empty; if it has jobs again by now, the caller checks once
-- more.
if command == 'taskvisor.forget' then
  local queue, days = take(), tonumber(take())
  if not call('ZSCORE', 'ql:queues', queue) then return no('queue', queue) end
  local key = 'ql:q:' .. queue
  local jobs = call('ZCARD', key .. '-work') + call('ZCARD', key .. '-scheduled') + call('ZCARD', key .. '-depends')
    + call('ZCARD', key .. '-locks') + call('ZCARD', key .. '-throttled') + call('SISMEMBER', 'ql:paused_queues', queue)
  for state in pairs(ENDED) do
    jobs = jobs + math.max(number(call('HGET', 'ql:taskvisor:ended', state .. ':' .. queue) or 0), 0)
  end
  if jobs > 0 then return 0 end
  local recurring = call('ZRANGE', key .. '-recur', 0, -1)
  for _, name in ipairs(call('ZRANGE', 'ql:taskvisor:recur', 0, -1)) do
    if call('HGET', 'ql:taskvisor:recur:' .. name, 'queue') == queue then recurring[#recurring + 1] = name end
  end
  if #recurring > 0 then return no('recurs', queue, table.concat(recurring, ', ', 1, math.min(#recurring, 3))) end
  call('ZREM', 'ql:queues', queue)
  for state in pairs(ENDED) do call('HDEL', 'ql:taskvisor:ended', state .. ':' .. queue) end
  for day = floor(clock / 86400) - days, floor(clock / 86400) do
    for _, kind in ipairs({'wait', 'run', 'stats'}) do call('DEL', figures(kind, queue, day * 86400)) end
  end
  return 1
end
