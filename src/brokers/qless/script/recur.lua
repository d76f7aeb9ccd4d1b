-- Recurring jobs.

if command == 'recur' then
  local queue, jid, klass, data, kind, interval, offset = unpack(args, 3, 9)
  need(queue, 'RecurringJob On(): Arg "queue" missing')
  need(jid, 'RecurringJob On(): Arg "jid" missing')
  need(klass, 'RecurringJob On(): Arg "klass" missing')
  need(json(data), 'RecurringJob On(): Arg "data" not JSON: ', data)
  need(kind, 'RecurringJob On(): Arg "spec" missing')
  if kind ~= 'interval' then error('Recur(): schedule type "' .. kind .. '" unknown') end
  local every = need(number(interval), 'Recur(): Arg "interval" not a number: ', interval)
  local wait = need(number(offset), 'Recur(): Arg "offset" not a number: ', offset)
  if every <= 0 then error('Recur(): Arg "interval" must be greater than 0') end
  local given = named_args(10)
  need(number(given.priority or 0), 'Recur(): Arg "priority" not a number: ', given.priority)
  need(number(given.retries or 0), 'Recur(): Arg "retries" not a number: ', given.retries)
  need(number(given.backlog or 0), 'Recur(): Arg "backlog" not a number: ', given.backlog)
  local tags = encode(need(json_names(given.tags or '[]'), 'Recur(): Arg "tags" not JSON: ', given.tags))

  -- A name belongs to a recurring job of taskvisor or to one of qless, not to both.
  if call('ZSCORE', 'ql:taskvisor:recur', jid) then
    error('Recur(): a recurring job of taskvisor is called "' .. jid .. '": take another name, or remove that one')
  end
  local key = 'ql:r:' .. jid
  local from, made = unpack(call('HMGET', key, 'queue', 'count'))
  if from then call('ZREM', 'ql:q:' .. from .. '-recur', jid) end
  call('HSET', key, 'jid', jid, 'klass', klass, 'data', data, 'priority', given.priority or '0', 'tags', tags,
    'state', 'recur', 'queue', queue, 'type', 'interval', 'count', made and made:match('^%d+$') or '0',
    'interval', interval, 'retries', given.retries or '0', 'backlog', given.backlog or '0')
  call('ZADD', 'ql:q:' .. queue .. '-recur', clock + wait, jid)
  call('PUBLISH', 'ql:taskvisor', queue)
  know_queue(queue)
  return jid
end

if command == 'recur.get' then
  local key = 'ql:r:' .. need(args[3], 'RecurringJob Get(): Arg "jid" missing')
  local jid, klass, queue, priority, interval, retries, made, data, tags, backlog = unpack(call('HMGET', key,
    'jid', 'klass', 'queue', 'priority', 'interval', 'retries', 'count', 'data', 'tags', 'backlog'))
  if not jid then return end
  return encode({
    jid = jid, klass = klass, state = 'recur', queue = queue, priority = number(priority or 0) or 0,
    interval = number(interval or 0) or 0, retries = number(retries or 0) or 0, count = number(made or 0) or 0,
    data = data, tags = json_names(tags) or {}, backlog = number(backlog or 0) or 0,
  })
end

if command == 'recur.update' then
  local jid = need(args[3], 'RecurringJob Update(): Arg "jid" missing')
  local key = 'ql:r:' .. jid
  local queue, interval = unpack(call('HMGET', key, 'queue', 'interval'))
  if not queue then error('Recur(): No recurring job ' .. jid) end
  for i = 4, #args, 2 do
    local name, value = args[i], args[i + 1]
    need(value, 'Recur(): No value provided for ' .. name)
    if name == 'priority' or name == 'interval' or name == 'retries' or name == 'backlog' then
      need(number(value), 'Recur(): Arg "' .. name .. '" not a number: ', value)
      if name == 'interval' and number(value) <= 0 then error('Recur(): Arg "interval" must be greater than 0') end
    elseif name == 'data' then
      need(json(value), 'Recur(): Arg "data" not JSON: ', value)
    elseif name ~= 'klass' and name ~= 'queue' then
      error('Recur(): Unrecognized option "' .. name .. '"')
    end
  end
  for i = 4, #args, 2 do
    local name, value = args[i], args[i + 1]
    local due = number(call('ZSCORE', 'ql:q:' .. queue .. '-recur', jid) or now)
    if name == 'interval' then
      call('ZADD', 'ql:q:' .. queue .. '-recur', due - (number(interval) or 0) + number(value), jid)
      interval = value
    elseif name == 'queue' then
      call('ZREM', 'ql:q:' .. queue .. '-recur', jid)
      call('ZADD', 'ql:q:' .. value .. '-recur', due, jid)
      know_queue(value)
      queue = value
    end
    call('HSET', key, name, value)
  end
  return 1
end

if command == 'recur.tag' or command == 'recur.untag' then
  local jid = need(args[3], 'Tag(): Arg "jid" missing')
  local key = 'ql:r:' .. jid
  local queue, text = unpack(call('HMGET', key, 'queue', 'tags'))
  if not queue then error('Tag(): Job ' .. jid .. ' does not exist') end
  local tags = encode(change_names(json_names(text) or {}, command == 'recur.tag', args_from(4)))
  call('HSET', key, 'tags', tags)
  return tags
end

if command == 'unrecur' then
  local jid = need(args[3], 'Unrecur(): Arg "jid" missing')
  local queue = call('HGET', 'ql:r:' .. jid, 'queue')
  if queue then call('ZREM', 'ql:q:' .. queue .. '-recur', jid) end
  call('DEL', 'ql:r:' .. jid)
  return 1
end
