-- Leases on jobs: granted, and over in time.

-- The rule of qless for a lease of another program that expired: a try is spent, and a job without tries left fails.
local function spend(jid, job)
  local remaining = (number(job.remaining) or 0) - 1
  need_lease(job, '-work')
  if remaining < 0 then need_end(job.queue) end
  let_go(jid, job)
  call('HDEL', 'ql:j:' .. jid, 'grace', 'begin_within')
  call('HSET', 'ql:j:' .. jid, 'remaining', remaining)
  if remaining < 0 then
    local group = 'failed-retries-' .. job.queue
    local message = 'Job exhausted retries in queue "' .. job.queue .. '"'
    local why = '{"group":' .. encode(group) .. ',"message":' .. encode(message) .. '}'
    job.worker = ''
    end_badly(jid, job, 'failed', why, group, message)
  else
    put_back(jid, job)
    news('lock_lost', jid, job.queue, 'waiting')
  end
end

-- After a silence of the server no lease is over for this many seconds: whoever could not renew it does so first.
local SETTLING, is_after_silence = 10, false

-- Handles an expired lease: the lock is lost, and its holder gets `lock_lost`. For a short grace no one else gets the
-- job: the holder may be ending it, and may yet renew or settle.
local function expire(jid, queue, ended)
  local locks, job, ends = 'ql:q:' .. queue .. '-locks', read(jid, HELD), number(ended) or 0
  -- A broken hash must not stop the queue, and a lock left by another program elsewhere does not end a lease.
  job.queue = job.queue or queue
  if job.state ~= 'running' or job.queue ~= queue then
    call('ZREM', locks, jid)
    return
  end
  if is_after_silence then
    call('ZADD', locks, clock + SETTLING, jid)
    return
  end
  if job.grace ~= '1' then
    history(jid, clock, 'timed-out')
    tell_followers('stalled', jid)
    if job.worker and job.worker ~= '' then tell_lock_lost(jid, job.worker) end
    count(queue, clock, 'retries', 1)
    ends = ends + option(queue .. '-grace-period', option('grace-period', 10))
  end
  if ends > clock then
    call('HSET', 'ql:j:' .. jid, 'grace', '1')
    call('ZADD', locks, ends, jid)
  elseif is_held(job) then
    take_back(jid, job)
  else
    spend(jid, job)
  end
end

-- Fails a job that was to begin earlier. No worker has had it, so no attempt is charged.
local function drop(jid, queue, throttles)
  local message = 'it was not begun in time: it was put with `expires`'
  need_lists(queue, '-depends', '-throttled')
  need_failure(queue, 'expired')
  leave(jid, queue)
  if throttles then leave_throttles(jid, throttles) end
  call('HDEL', 'ql:j:' .. jid, 'due', 'scheduled')
  aside('ZREM', UNBEGUN, jid)
  end_badly(jid, {queue = queue, worker = ''}, 'failed', '{"group":"expired","message":' .. encode(message) .. '}',
    'expired', message)
end

-- Most jobs that one call drops: the next one goes on at once.
local DROPPED_AT_ONCE = 250

-- The time of the first of those that have not begun.
local function first_unbegun()
  local first = aside('ZRANGE', UNBEGUN, 0, 0, 'WITHSCORES') or {}
  return number(first[2]) or math.huge
end

-- Looks at a job whose time to begin is over: wherever it waits, it fails. One that has begun, or has ended, does not.
local function drop_unbegun(jid)
  local state, queue, attempt, within, throttles = fields(jid, 'state', 'queue', 'attempt', 'begin_within', 'throttles')
  local may_begin = may_wait(state) or state == 'depends'
  if may_begin and within and queue and (number(attempt) or 0) == 0 then return drop(jid, queue, throttles) end
  call('ZREM', UNBEGUN, jid)
end

-- Moves a delayed job that is due to the waiting ones; its time counts from the moment it was due.
local function promote(jid, queue, due)
  local priority, order, state = fields(jid, 'priority', 'order', 'state')
  if may_wait(state) then
    enter_work(jid, queue, priority, number(order) or clock)
    call('HSET', 'ql:j:' .. jid, 'state', 'waiting', 'time', due)
    call('HDEL', 'ql:j:' .. jid, 'due')
  end
  call('ZREM', 'ql:q:' .. queue .. '-scheduled', jid)
end

-- Calls `act` for the entries of a queue's list that are due. One that fails is tried again in a second, after others.
local function each_due(list, queue, most, act)
  local due = call('ZRANGEBYSCORE', list, '-inf', now, 'WITHSCORES', 'LIMIT', 0, most)
  for i = 1, #due, 2 do
    local key, jid = 'ql:j:' .. due[i], due[i]
    local is_fine = attempt_for(key, queue, jid, safely, list, jid, act, jid, queue, due[i + 1])
    if not is_fine then aside('ZADD', list, 'XX', clock + 1, jid) end
  end
end

-- Whether a class is one of `names`; a name may end in `*`.
local function is_among(names, klass)
  for _, name in ipairs(names) do
    if name == klass or name:sub(-1) == '*' and klass:sub(1, #name - 1) == name:sub(1, -2) then return true end
  end
  return false
end

if command == 'taskvisor.fetch' then
  local instance, fetch, unheard = take(), take(), take_list()
  local length, in_turn = number(take()), take() == 'turn'
  local only, except, queues = take_list(), take_list(), take_list()
  local workers = {}
  -- What is written for a worker's name is made once: with jobs of no length a worker is named for each of many.
  local named = {}
  for i = 1, tonumber(take()) do
    local name = take()
    named[name] = named[name] or {name = name, said = '{"worker":' .. encode(name) .. '}', leases = {}}
    workers[i] = {of = named[name], life = take()}
  end
  is_after_silence = take() == '1'
  local expires = format('%.6f', clock + length)
  write_though_full()

  local function is_wanted(klass)
    return (#only == 0 or is_among(only, klass)) and not is_among(except, klass)
  end

  -- The keys of all queues: without them nothing is handed out.
  local function need_shared()
    need_kind('set', 'ql:taskvisor:held:' .. instance)
    need_kind('set', 'ql:taskvisor:unheard:' .. instance)
    need_kind('set', 'ql:paused_queues')
    need_kind('hash', 'ql:config')
    return true
  end

  -- Most jobs of a queue that one call passes over: no call may take long.
  local PASSED_AT_ONCE = 1000
  -- The first `most` jobs of a queue with a wanted class. One call looks at the first 5000, and at as many more from
  -- where the last call ended; if there are still others, the next call goes on.
  local STEP, FIRST = 100, 5000
  local is_seeking = false
  -- The jobs that could not be handed out in this call, and how many of each queue: they stay where they are.
  local passed, passed_of = {}, {}
  local function waiting(queue, most)
    local work = 'ql:q:' .. queue .. '-work'
    if #only + #except == 0 then
      local found = {}
      for _, jid in ipairs(call('ZREVRANGE', work, 0, most + (passed_of[queue] or 0) - 1)) do
        if not passed[jid] and #found < most then found[#found + 1] = jid end
      end
      return found
    end
    local found, from, last = {}, 0, FIRST
    local field = instance .. ' ' .. queue
    while #found < most do
      local some = call('ZREVRANGE', work, from, from + STEP - 1)
      for _, jid in ipairs(some) do
        if #found < most and not passed[jid] and is_wanted(fields(jid, 'klass') or '') then found[#found + 1] = jid end
      end
      from = from + STEP
      if #some < STEP then
        -- The end of the queue: the next call starts again after the first ones.
        is_seeking = is_seeking or last > 2 * FIRST
        if last > FIRST then call('HDEL', 'ql:taskvisor:seek', field) end
        break
      end
      if from == FIRST then
        from = math.max(number(call('HGET', 'ql:taskvisor:seek', field) or 0) or 0, FIRST)
        last = from + FIRST
      elseif from >= last then
        call('HSET', 'ql:taskvisor:seek', field, from)
        is_seeking = true
        break
      end
    end
    return found
  end

  local GIVEN = {
    'klass', 'data', 'priority', 'tags', 'attempt', 'crashes', 'interrupted', 'unknown', 'policy', 'limit', 'exec',
    'retries', 'remaining', 'time', 'order', 'hold', 'grace', 'progress', 'renewed', 'due', 'state', 'queue',
    'put_at', 'throttles', 'begin_within',
  }
  local given, waits = {}, {}

  local dropped = 0
  -- Gives a job to a worker. False if there is no hash, or if the job is elsewhere by now.
  local function grant(jid, queue, worker)
    local key = 'ql:j:' .. jid
    local values = call('HMGET', key, unpack(GIVEN))
    if not values[1] and not values[2] then return end
    local retries, remaining, time, order, hold, grace, progress, renewed, due, state, from, put_at, throttles,
      begin_within = unpack(values, 12)
    if state and state ~= 'waiting' and not may_wait(state, jid, from) then return end
    if from and from ~= queue and call('ZSCORE', 'ql:q:' .. from .. '-work', jid) then return end
    if not is_text(jid) then return refuse_jid(jid, queue) end
    local is_late = begin_within and (number(values[5]) or 0) == 0
      and number(millis) >= (number(put_at) or 0) + (number(begin_within) or math.huge)
    if is_late then
      drop(jid, queue, throttles)
      dropped = dropped + 1
      return
    end
    if throttles and not take_throttles(jid, queue, throttles) then return end
    -- A job of another program shows its tries by what remains of them.
    local attempt = (number(values[5]) or math.max((number(retries) or 0) - (number(remaining) or 0), 0)) + 1
    hold = next_hold(hold)
    if not put_at and not aside('ZSCORE', 'ql:taskvisor:jobs', jid) then give_place(jid) end
    -- Calls that may fail come first, while the job is not running yet.
    history(jid, clock, 'popped', worker.of.said)
    if grace or progress or renewed or due then call('HDEL', key, 'grace', 'progress', 'renewals', 'renewed', 'due') end
    if begin_within then aside('ZREM', UNBEGUN, jid) end
    if not order then call('HSET', key, 'order', time or now) end
    if from ~= queue then call('HSET', key, 'queue', queue) end
    local name = worker.of.name
    call('HSET', key, 'state', 'running', 'worker', name, 'held_by', name, 'expires', expires,
      'time', now, 'hold', hold, 'instance', instance, 'life', worker.life, 'started', millis,
      'attempt', format('%d', attempt), 'fetch', fetch)
    tell_followers('popped', jid)
    news('fetched', jid, queue, 'running')
    values[5] = attempt
    local waited = clock - (number(time) or clock)
    values[14] = format('%.6f', waited)
    given[#given + 1] = {jid, queue, hold, unpack(values, 1, 14)}
    waits[queue] = waits[queue] or {}
    table.insert(waits[queue], waited)
    return true
  end

  -- Gives jobs of a queue to the workers that have none yet. Entries that are no jobs leave the queue. A job that
  -- cannot be handed out stays in it, and does not stop the others.
  local function grant_all(jids, queue)
    local key, granted, leases, leaving = 'ql:q:' .. queue, {}, {}, {}
    for _, jid in ipairs(jids) do
      local worker = workers[#given + 1]
      local is_fine, is_granted =
        attempt_for('ql:j:' .. jid, queue, jid, safely, key .. '-work', jid, grant, jid, queue, worker)
      if is_granted then
        local n, own = 2 * #granted, worker.of.leases
        granted[#granted + 1] = jid
        leases[n + 1], leases[n + 2] = expires, jid
        n = #own
        own[n + 1], own[n + 2] = expires, jid
      end
      if is_fine then
        leaving[#leaving + 1] = jid
      else
        passed[jid], passed_of[queue] = true, (passed_of[queue] or 0) + 1
      end
    end
    call_many('ZADD', key .. '-locks', leases)
    call_many('SADD', 'ql:taskvisor:held:' .. instance, granted)
    call_many('ZREM', key .. '-work', leaving)
    local seen = {}
    for name, worker in pairs(named) do
      if worker.leases[1] then
        call_many('ZADD', 'ql:w:' .. name .. ':jobs', worker.leases, aside)
        seen[#seen + 1] = now
        seen[#seen + 1] = name
        worker.leases = {}
      end
    end
    call_many('ZADD', 'ql:workers', seen, aside)
  end

  -- Handles what is due in a queue. Gives how many jobs the queue may hand out then.
  local function look_at(queue)
    local key, room = 'ql:q:' .. queue, #workers
    need_lists(queue, '-locks', '-work')
    each_due(key .. '-locks', queue, 100, expire)
    local most = most_at_once(queue)
    if most > 0 then room = math.max(0, math.min(room, most - call('ZCARD', key .. '-locks'))) end
    guarded(key .. '-recur', queue, spawn_due, queue, room)
    guarded(key .. '-scheduled', queue, each_due, key .. '-scheduled', queue, 1000, promote)
    return room
  end

  -- Queues that may have jobs to hand out, with how many each may hand out.
  local open, going, is_full, is_releasing = {}, {}, false, release_more()
  local has_strays = put_strays_right()
  if not guarded('ql:taskvisor', '*', need_shared) or is_unheard(instance, fetch, unheard) then queues = {} end
  for _, queue in ipairs(queues) do
    if call('SISMEMBER', 'ql:paused_queues', queue) == 0 then
      local room = guarded('ql:q:' .. queue, queue, look_at, queue)
      if room then going[#going + 1] = {name = queue, room = room} end
      if room == 0 then is_full = most_at_once(queue) > 0 or is_full end
      if room and room > 0 then open[#open + 1] = going[#going] end
    end
  end

  local turn = 1
  while #given < #workers and #open > 0 do
    local queue = open[turn]
    local most = math.min(in_turn and 1 or #workers, #workers - #given, queue.room)
    local key, before = 'ql:q:' .. queue.name, #given
    local jids = guarded(key, queue.name, waiting, queue.name, most) or {}
    guarded(key, queue.name, grant_all, jids, queue.name)
    queue.room = queue.room - (#given - before)
    -- An entry that has brought no job is removed or passed over: the queue is looked at once more.
    if #jids < most or queue.room <= 0 or (passed_of[queue.name] or 0) >= PASSED_AT_ONCE
      or dropped >= DROPPED_AT_ONCE then
      table.remove(open, turn)
    elseif in_turn then
      turn = turn + 1
    end
    if turn > #open then turn = 1 end
  end
  for queue, values in pairs(waits) do stat('wait', queue, clock, values) end

  -- When the next job becomes due by the passing of time alone.
  local goes_on = is_seeking or has_strays
  -- What had to wait for a spoiled key is tried again.
  for _, one in ipairs(odd) do goes_on = goes_on or one[3] ~= '' end
  local next_due = (is_releasing or dropped >= DROPPED_AT_ONCE) and clock or goes_on and clock + 1 or math.huge
  local function look_ahead(key)
    local first = call('ZRANGEBYSCORE', key, 0, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    next_due = math.min(next_due, number(first[2] or math.huge) or math.huge)
  end
  if #given < #workers then
    for _, queue in ipairs(going) do
      local key = 'ql:q:' .. queue.name
      guarded(key .. '-scheduled', queue.name, look_ahead, key .. '-scheduled')
      guarded(key .. '-locks', queue.name, look_ahead, key .. '-locks')
      -- A queue at its limit puts no recurring jobs, however overdue.
      if queue.room > 0 then guarded(key .. '-recur', queue.name, look_ahead, key .. '-recur') end
    end
  end
  local has_dependents = false
  for _, queue in ipairs(going) do
    has_dependents = has_dependents or call('EXISTS', 'ql:q:' .. queue.name .. '-depends') == 1
  end
  local seen = (is_full and 1 or 0) + (has_dependents and 2 or 0)
  return {next_due < math.huge and format('%.6f', next_due) or false, given, odd, seen}
end
