-- config: options of the whole system.

if command == 'config.get' then
  local values = {
    application = 'qless', heartbeat = 60, ['grace-period'] = 10, ['stats-history'] = 30, ['histogram-history'] = 7,
    ['jobs-history-count'] = 50000, ['jobs-history'] = 604800,
  }
  if args[3] then return call('HGET', 'ql:config', args[3]) or values[args[3]] end
  local set = call('HGETALL', 'ql:config')
  for i = 1, #set, 2 do values[set[i]] = set[i + 1] end
  return encode(values)
end

if command == 'config.set' then
  local name, value = unpack(args, 3, 4)
  need(name, 'Config.set(): Arg "option" missing')
  need(value, 'Config.set(): Arg "value" missing')
  tell('{"option":' .. encode(name) .. ',"event":"config_set","value":' .. encode(value) .. '}')
  call('HSET', 'ql:config', name, value)
  return
end

if command == 'config.unset' then
  local name = need(args[3], 'Config.unset(): Arg "option" missing')
  tell('{"event":"config_unset","option":' .. encode(name) .. '}')
  call('HDEL', 'ql:config', name)
  return
end
