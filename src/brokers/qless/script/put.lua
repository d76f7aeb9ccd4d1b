-- put and requeue: a new job, or an existing one as if it were new.

if command == 'put' or command == 'requeue' then
  -- Takes a job out of all lists; its holder gets `lock_lost`.
  local function lift(jid, me, state, queue, worker, failure)
    if queue and queue ~= '' then leave(jid, queue) end
    if worker and worker ~= '' then
      forget_worker_job(worker, jid)
      if worker ~= me then tell_lock_lost(jid, worker) end
    end
    if state == 'complete' then call('ZREM', 'ql:completed', jid) end
    if state == 'failed' then remove_failure(jid, forget_failure(queue, failure)) end
    call('HDEL', 'ql:j:' .. jid, 'grace', 'scheduled')
  end

  -- Removes a job's needs that are not among `needs`, if it has any.
  local function drop_needs(jid, needs)
    local key, kept = 'ql:j:' .. jid .. '-dependencies', {}
    local before = try('SMEMBERS', key)
    -- A key of another type holds no dependents.
    if before.err then call('DEL', key) end
    for _, other in ipairs(needs) do kept[other] = true end
    for _, other in ipairs(#needs > 0 and before or {}) do
      if not kept[other] then
        try('SREM', 'ql:j:' .. other .. '-dependents', jid)
        call('SREM', key, other)
      end
    end
  end

  -- Puts a job at `when`. `given` has the fields to change: texts of priority, tags, retries, depends.
  local function put_job(me, queue, jid, klass, data, delay, given, when)
    need(jid, 'Put(): Arg "jid" missing')
    need(klass, 'Put(): Arg "klass" missing')
    need(json(data), 'Put(): Arg "data" missing or not JSON: ', data)
    delay = need(number(delay), 'Put(): Arg "delay" not a number: ', delay)
    need(number(given.priority or 0), 'Put(): Arg "priority" not a number: ', given.priority)
    need(number(given.retries or 0), 'Put(): Arg "retries" not a number: ', given.retries)
    local new_tags = encode(need(json_names(given.tags or '[]'), 'Put(): Arg "tags" not JSON: ', given.tags))
    local needs = need(json_names(given.depends or '[]'), 'Put(): Arg "depends" not JSON: ', given.depends)

    local key = 'ql:j:' .. jid
    local state = call('HGET', key, 'state')
    local priority, tags, from, failure, retries, worker
    if state then
      priority, tags, from, failure, retries, worker =
        fields(jid, 'priority', 'tags', 'queue', 'failure', 'retries', 'worker')
    end
    tell_put(jid, queue)
    history(jid, when, 'put', '{"q":' .. encode(queue) .. '}')
    if state then
      drop_needs(jid, needs)
      untag(jid, json_names(tags) or {})
      lift(jid, me, state, from, worker, failure)
    end
    priority, retries = given.priority or priority or '0', given.retries or retries or '5'
    if given.tags or not tags then tags = new_tags end
    if tags ~= '{}' then tag(jid, json_names(tags) or {}, when) end

    local waits = depend(jid, needs) or state and call('SCARD', key .. '-dependencies') > 0
    local due, becomes = delay > 0 and when + delay, 'waiting'
    if waits then
      becomes = 'depends'
      call('ZADD', 'ql:q:' .. queue .. '-depends', when, jid)
    elseif due then
      becomes = 'scheduled'
      call('ZADD', 'ql:q:' .. queue .. '-scheduled', due, jid)
    else
      enter_work(jid, queue, priority, when)
    end
    call('HSET', key, 'jid', jid, 'klass', klass, 'data', data, 'priority', priority, 'tags', tags, 'state', becomes,
      'worker', '', 'expires', '0', 'queue', queue, 'retries', retries, 'remaining', retries,
      'time', format('%.20f', when))
    if waits and due then call('HSET', key, 'scheduled', due) end
    know_queue(queue)
    news('put', jid, queue, becomes)
    tell_followers('put', jid)
    return jid
  end

  if command == 'put' or command == 'requeue' then
    local me, queue, jid, klass, data, delay = unpack(args, 3, 8)
    if command == 'requeue' and not fields(jid or '', 'state') then
      error('Requeue(): Job ' .. tostring(jid) .. ' does not exist')
    end
    return put_job(me, queue, jid, klass, data, delay, named_args(9), clock)
  end
end
