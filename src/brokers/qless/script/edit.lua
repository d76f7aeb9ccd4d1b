-- depends, priority, log, tag: change a job while it waits or runs.

-- Adds to a list the names that it lacks, or removes names from it.
local change_names
if command == 'tag' or command == 'recur.tag' or command == 'recur.untag' then
  function change_names(names, adds, others)
    local mentioned, kept = {}, {}
    for _, name in ipairs(others) do mentioned[name] = true end
    for _, name in ipairs(names) do
      if adds or not mentioned[name] then kept[#kept + 1] = name end
      mentioned[name] = nil
    end
    for _, name in ipairs(adds and others or {}) do
      if mentioned[name] then kept[#kept + 1] = name end
      mentioned[name] = nil
    end
    return kept
  end
end

if command == 'depends' then
  local jid, how = unpack(args, 3, 4)
  need(jid, 'Depends(): Arg "jid" missing')
  need(how, 'Depends(): Arg "command" missing')
  local state, key, others = fields(jid, 'state'), 'ql:j:' .. jid .. '-dependencies', args_from(5)
  if state ~= 'depends' then error('Depends(): Job ' .. jid .. ' not in the depends state: ' .. tostring(state)) end
  if how == 'on' then
    depend(jid, others)
  elseif how == 'off' then
    if others[1] == 'all' then others = call('SMEMBERS', key) end
    for _, other in ipairs(others) do
      call('SREM', key, other)
      call('SREM', 'ql:j:' .. other .. '-dependents', jid)
    end
    set_free(jid, clock)
  else
    error('Depends(): Argument "command" must be "on" or "off"')
  end
  return 1
end

if command == 'priority' then
  local jid, priority = unpack(args, 3, 4)
  need(jid, 'Priority(): Arg "jid" missing')
  local value = need(number(priority), 'Priority(): Arg "priority" missing or not a number: ', priority)
  local state, queue, before = fields(jid, 'state', 'queue', 'priority')
  if not state then error('Priority(): Job ' .. jid .. ' does not exist') end
  call('HSET', 'ql:j:' .. jid, 'priority', priority)
  -- Among jobs of its new priority, its time decides its place.
  local work = 'ql:q:' .. tostring(queue) .. '-work'
  if call('ZSCORE', work, jid) then call('ZINCRBY', work, value - (number(before) or 0), jid) end
  news('edited', jid, queue, state, 'priority ' .. priority .. '; it was ' .. (before or '0'))
  return value
end

if command == 'log' then
  local jid, message, extra = unpack(args, 3, 5)
  need(jid, 'Log(): Arg "jid" missing')
  need(message, 'Log(): Arg "message" missing')
  if extra then
    need(json_table(extra), 'Log(): Arg "data" not JSON: ', extra)
    -- Checked as it will be stored: inside a line, so one level deeper.
    local fine, line = json('[' .. extra .. ']')
    need(fine and pcall(encode, line), 'Log(): Arg "data" has too large a number, or goes too deep: ', extra)
  end
  if not fields(jid, 'state') then error('Log(): Job ' .. jid .. ' does not exist') end
  history(jid, clock, message, extra)
  return
end

if command == 'tag' then
  local how, subject = unpack(args, 3, 4)
  need(how, 'Tag(): Arg "command" must be "add", "remove", "get" or "top"')
  if how == 'get' or how == 'top' then
    -- `top` has no tag before the offset and the count.
    local at = how == 'get' and 5 or 4
    local offset = floor(need(number(args[at] or 0), 'Tag(): Arg "offset" not a number: ', args[at]))
    local most = floor(need(number(args[at + 1] or 25), 'Tag(): Arg "count" not a number: ', args[at + 1]))
    if how == 'top' then
      return encode(call('ZREVRANGEBYSCORE', 'ql:tags', '+inf', 2, 'LIMIT', offset, most))
    end
    local key = 'ql:t:' .. need(subject, 'Tag(): Arg "tag" missing')
    local jids = call('ZRANGEBYSCORE', key, '-inf', '+inf', 'LIMIT', offset, most)
    return encode({total = call('ZCARD', key), jobs = jids})
  end
  if how ~= 'add' and how ~= 'remove' then error('Tag(): First argument must be "add", "remove" or "get"') end
  local jid = need(subject, 'Tag(): Arg "jid" missing')
  local state, text, queue = fields(jid, 'state', 'tags', 'queue')
  if not state then error('Tag(): Job ' .. jid .. ' does not exist') end
  local changed, change = args_from(5), how == 'add' and tag or untag
  local tags = encode(change_names(json_names(text) or {}, how == 'add', changed))
  call('HSET', 'ql:j:' .. jid, 'tags', tags)
  change(jid, changed, clock)
  news('edited', jid, queue, state, 'tags ' .. table.concat(json_names(tags) or {}, ' '))
  return tags
end
