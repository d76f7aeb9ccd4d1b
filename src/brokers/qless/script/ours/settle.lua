-- Verdicts: jobs end, go on in another queue, or go back.
--
-- All is in a block, as only this command uses it.

if command == 'taskvisor.settle' then

-- Stores what an ended attempt has left.
local function leave_behind(jid, left)
  if left.forensics then call('HSET', 'ql:j:' .. jid, 'forensics', left.forensics) end
  call('HDEL', 'ql:j:' .. jid, 'grace', 'canceling')
end

-- How long jobs have run, by queue, and those that are complete, also by worker: written once in a call.
local runs, completed, left_by = {}, {}, {}

local function finish(jid, job, left)
  history(jid, clock, 'done')
  count_class('complete', job, left)
  runs[job.queue] = runs[job.queue] or {}
  table.insert(runs[job.queue], left.ran or clock - (number(job.time) or clock))
end

local function complete(jid, job, left)
  finish(jid, job, left)
  local key = 'ql:j:' .. jid
  if job.why or job.result or job.grace or job.canceling then
    call('HDEL', key, 'why', 'group', 'result', 'grace', 'canceling')
  end
  local left_behind = {}
  for _, name in ipairs({'result', 'forensics'}) do
    if left[name] then
      left_behind[#left_behind + 1] = name
      left_behind[#left_behind + 1] = left[name]
    end
  end
  call('HSET', key, 'state', 'complete', 'worker', '', 'failure', '{}', 'queue', '', 'from', job.queue, 'expires', '0',
    'remaining', job.retries or '0', 'ended', millis, unpack(left_behind))
  if job.throttles then leave_throttles(jid, job.throttles) end
  completed[#completed + 1] = {jid = jid, queue = job.queue, instance = job.instance}
  left_by[job.worker] = left_by[job.worker] or {}
  table.insert(left_by[job.worker], jid)
  tell('{"jid":' .. encode(jid) .. ',"event":"completed","queue":' .. encode(job.queue) .. '}')
  tell_followers('completed', jid)
  news('complete', jid, job.queue, 'complete')
  return 'complete'
end

-- Removes complete jobs from locks and indices, and releases their dependents. Many jobs cost little more than one.
local function write_down(jobs)
  local locks, held, indexed, waited_for = {}, {}, {}, {}
  for i, job in ipairs(jobs) do
    locks[job.queue], indexed[2 * i - 1], indexed[2 * i] = locks[job.queue] or {}, now, job.jid
    table.insert(locks[job.queue], job.jid)
    waited_for[i] = 'ql:j:' .. job.jid .. '-dependents'
    if job.instance then
      held[job.instance] = held[job.instance] or {}
      table.insert(held[job.instance], job.jid)
    end
  end
  for queue, jids in pairs(locks) do
    call_many('ZREM', 'ql:q:' .. queue .. '-locks', jids, aside)
    count_ended(queue, 'complete', #jids)
    make_room(queue)
  end
  for instance, jids in pairs(held) do call_many('SREM', 'ql:taskvisor:held:' .. instance, jids, aside) end
  for worker, jids in pairs(left_by) do call_many('ZREM', 'ql:w:' .. worker .. ':jobs', jids, aside) end
  call_many('ZADD', 'ql:completed', indexed, aside)
  if #jobs == 0 or #jobs <= 1000 and call('EXISTS', unpack(waited_for)) == 0 then return end
  for _, job in ipairs(jobs) do release_dependents(job.jid, clock) end
end

-- Moves a job that is complete here into another queue, as if it had been put there.
local function advance(jid, job, left)
  local wrong
  local lost = missing(left.needs)
  if lost then
    wrong = "a job cannot depend on '" .. lost .. "': no job has that id"
  else
    local way = circle(jid, left.needs)
    if way == false then
      wrong = TOO_ENTANGLED
    elseif way and #way <= 2 then
      wrong = "job '" .. jid .. "' cannot depend on itself"
    elseif way then
      local shown = math.min(#way, 8)
      wrong = "jobs cannot wait for each other in a circle: '" .. table.concat(way, "' needs '", 1, shown) .. "'"
        .. (#way > shown and ' and so on, ' .. #way - 1 .. ' jobs in all' or '')
    end
  end
  if wrong then
    local message = "it is complete here, but cannot go on in queue '" .. left.next .. "': " .. wrong
    local why = '{"group":"advance","message":' .. encode(message) .. '}'
    note_attempt(jid, job, 'held', {failure = why, forensics = left.short_forensics, crashed = left.crashed})
    leave_behind(jid, left)
    count_class('held', job, left)
    end_badly(jid, job, 'held', why, 'advance', message)
    return 'held'
  end
  finish(jid, job, left)
  note_attempt(jid, job, 'complete', {forensics = left.short_forensics})
  note(jid, '{"at":' .. millis .. ',"advanced":{"from":' .. encode(job.queue) .. ',"to":' .. encode(left.next)
    .. (left.result and #left.result <= 2048 and ',"result":' .. encode(left.result) or '')
    .. (left.result and #left.result > 2048 and ',"result_bytes":' .. #left.result or '') .. '}}')
  local key = 'ql:j:' .. jid
  tell('{"jid":' .. encode(jid) .. ',"to":' .. encode(left.next) .. ',"event":"advanced","queue":'
    .. encode(job.queue) .. '}')
  tell_followers('completed', jid)
  history(jid, clock, 'put', '{"q":' .. encode(left.next) .. '}')
  know_queue(left.next)
  call('HSET', key, 'worker', '', 'failure', '{}', 'queue', left.next, 'expires', '0', 'remaining', job.retries or '0',
    'attempt', '0', 'crashes', '0', 'interrupted', '0', 'unknown', '0', 'time', now)
  call('HDEL', key, 'why', 'group', 'result', 'forensics', 'progress', 'instance', 'ended', 'grace', 'canceling', 'due',
    'begin_within')
  local waits = depend(jid, left.needs)
  local state = place(jid, left.next, job.priority, number(job.order) or clock, left.delay, waits)
  if state ~= 'depends' then wake(left.next) end
  news('advanced', jid, left.next, state)
  return 'advanced'
end

-- Ends the attempt, and puts the job back for another one.
local function again(jid, job, left)
  local due = left.after > 0 and format('%.0f', math.ceil((clock + left.after) * 1000 - 0.001)) or nil
  local state = due and 'delayed' or 'waiting'
  if left.is_spent or left.counts then
    note_attempt(jid, job, state, {
      due = due, crashed = left.crashed, counts = left.counts, failure = left.short_why,
      forensics = left.short_forensics,
    })
  end
  local key = 'ql:j:' .. jid
  if left.is_spent then
    local remaining = math.max((number(job.retries) or 0) - (number(job.attempt) or 0), 0)
    call('HSET', key, 'why', left.why, 'remaining', remaining,
      'failure', failure_text(left.group, left.message, floor(clock), job.worker))
    count(job.queue, clock, 'retries', 1)
    count_class('retries', job, left)
  else
    call('HSET', key, 'attempt', math.max((number(job.attempt) or 1) - 1, 0))
    -- It has begun, so it may take its time: the number of its attempts does not show that.
    local has_begun = left.counts or left.forensics
    if has_begun and left.counts ~= '"unknown_class"' then call('HDEL', key, 'begin_within') end
  end
  -- A stopped attempt is in the history only.
  if left.counts and left.counts ~= '"stopped"' then
    local counter = left.counts == '"interrupted"' and 'interrupted' or 'unknown'
    call('HSET', key, counter, (number(fields(jid, counter)) or 0) + 1)
  end
  leave_behind(jid, left)
  put_back(jid, job, due)
  news('again', jid, job.queue, state)
  return state
end

local settle
do
  -- Asks for the kinds of all keys that a verdict writes.
  local function need_verdict(job, verdict, left)
    need_lease(job)
    if verdict == 'complete' then return end
    if job.canceling or verdict == 'canceled' then
      need_end(job.queue)
    elseif verdict == 'advance' then
      need_lists(left.next, '-work', '-scheduled', '-depends')
      need_kind('zset', 'ql:queues')
      need_end(job.queue)
    elseif verdict == 'retry' or verdict == 'release' then
      need_lists(job.queue, left.after > 0 and '-scheduled' or '-work')
    else
      need_end(job.queue)
    end
  end

  function settle(jid, job, verdict, left)
    need_verdict(job, verdict, left)
    if left.crashed then call('HSET', 'ql:j:' .. jid, 'crashes', (number(job.crashes) or 0) + 1) end
    if verdict == 'complete' then return complete(jid, job, left) end
    let_go(jid, job)
    -- A job that is being canceled and was not done ends canceled: the cancel came in time.
    if job.canceling or verdict == 'canceled' then
      note_attempt(jid, job, 'canceled', {
        crashed = left.crashed, counts = left.counts, failure = left.short_why, forensics = left.short_forensics,
      })
      if left.why then call('HSET', 'ql:j:' .. jid, 'why', left.why) end
      leave_behind(jid, left)
      if left.counts or verdict == 'release' then
        call('HSET', 'ql:j:' .. jid, 'attempt', math.max((number(job.attempt) or 1) - 1, 0))
      end
      end_canceled(jid, job)
      return 'canceled'
    end
    if verdict == 'advance' then return advance(jid, job, left) end
    if verdict == 'retry' or verdict == 'release' then return again(jid, job, left) end
    local state = verdict == 'fail' and 'failed' or 'held'
    note_attempt(jid, job, state, {crashed = left.crashed, failure = left.short_why, forensics = left.short_forensics})
    leave_behind(jid, left)
    count_class(state, job, left)
    end_badly(jid, job, state, left.why, left.group, left.message)
    return state
  end
end

-- The fields to read of a job that is complete.
local COMPLETE = {
  'state', 'worker', 'queue', 'klass', 'time', 'retries', 'grace', 'hold', 'held_by', 'instance', 'canceling', 'why',
  'result', 'throttles', 'crashes',
}

-- Settles a job for the holder of that lease; nothing if the lease is over.
local function settle_ours(jid, hold, verdict, left)
  local job = read(jid, verdict == 'complete' and COMPLETE or HELD)
  return is_held(job) and job.hold == hold and settle(jid, job, verdict, left)
end

-- Takes an argument that may be empty.
local function take_any()
  local text = take()
  return text ~= '' and text or nil
end

local answers = {}
write_though_full()
for i = 1, tonumber(take()) do
  local jid, hold, verdict = take(), take(), take()
  local left = {crashed = take() == '1'}
  left.ran, left.cpu, left.peak_rss = number(take_any()), number(take_any()), number(take_any())
  left.forensics, left.short_forensics = take_any(), take_any()
  if verdict == 'complete' then
    left.result = take_any()
  elseif verdict == 'advance' then
    left.result, left.next, left.delay, left.needs = take_any(), take(), number(take()), take_list()
  elseif verdict == 'release' then
    left.after, left.counts = number(take()), take_any()
  elseif verdict ~= 'canceled' then
    left.is_spent, left.after = true, number(take())
    left.why, left.short_why, left.group, left.message = take(), take(), take(), take()
  end
  local is_fine, answer = pcall(safely, nil, jid, settle_ours, jid, hold, verdict, left)
  -- An error in one settlement does not affect the others.
  if not is_fine then answer = 'wrong: ' .. error_text(answer) end
  answers[i] = answer or 'not_ours'
end
for queue, times in pairs(runs) do stat('run', queue, clock, times) end
write_down(completed)
write_classes()
return answers

end
