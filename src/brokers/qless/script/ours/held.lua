-- Leases on jobs: renewed, verified, listed, and recovered after a crash.

-- Whether a job that `instance` does not hold any more was canceled. Other clients of qless remove such a job, and do
-- not know that a supervisor holds it. If the supervisor's list of held jobs is gone too, the server's data were lost.
local function is_canceled(jid, job, instance)
  if job.state then return job.state == 'canceled' end
  return instance == '' or call('SISMEMBER', 'ql:taskvisor:held:' .. instance, jid) == 1
end

if command == 'taskvisor.renew' then
  -- Extends a lease. Says `canceling` if its job is to end, and if it is over, how it was lost.
  local function renew(jid, hold, expires, instance)
    local job = read(jid, {'state', 'worker', 'held_by', 'hold', 'queue', 'canceling', 'instance', 'renewals'})
    if not is_held(job) or job.hold ~= hold then return is_canceled(jid, job, instance) and 'canceled' or 'lost' end
    call('ZADD', 'ql:q:' .. job.queue .. '-locks', expires, jid)
    local renewals = (number(job.renewals) or 0) + 1
    call('HSET', 'ql:j:' .. jid, 'expires', expires, 'renewed', millis, 'renewals', renewals)
    call('HDEL', 'ql:j:' .. jid, 'grace')
    aside('ZADD', 'ql:w:' .. job.worker .. ':jobs', expires, jid)
    aside('ZADD', 'ql:workers', now, job.worker)
    return job.canceling and 'canceling' or 'renewed'
  end

  local expires, instance, answers = format('%.6f', clock + number(take())), take(), {}
  write_though_full()
  for i = 1, tonumber(take()) do
    local jid, hold = take(), take()
    local is_fine, answer = pcall(renew, jid, hold, expires, instance)
    -- Not to know is no loss.
    answers[i] = is_fine and answer or 'wrong: ' .. error_text(answer)
  end
  return answers
end

-- Which leases are lost, and why. With `heard`, after a message that they are lost, a lease in its grace counts as lost
-- too. The holder ends the job in that grace, and gets no other message.
if command == 'taskvisor.verify' then
  local instance, heard, answers = take(), take() == '1', {}
  local function verify(jid, hold)
    local job = read(jid, {'state', 'queue', 'worker', 'held_by', 'hold', 'canceling', 'grace'})
    if is_held(job) and job.hold == hold then
      return job.canceling and 'canceled' or heard and job.grace == '1' and 'lost' or 'held'
    end
    return is_canceled(jid, job, instance) and 'canceled' or 'lost'
  end
  for i = 1, tonumber(take()) do
    local is_fine, answer = pcall(verify, take(), take())
    answers[i] = is_fine and answer or 'wrong: ' .. error_text(answer)
  end
  return answers
end

if command == 'taskvisor.progress' then
  for _ = 1, tonumber(take()) do
    local jid, hold, text = take(), take(), take()
    local is_fine, job = pcall(read, jid, {'state', 'queue', 'worker', 'held_by', 'hold'})
    if is_fine and is_held(job) and job.hold == hold then call('HSET', 'ql:j:' .. jid, 'progress', text) end
  end
  return 0
end

-- The jobs that a supervisor holds.
if command == 'taskvisor.held' then
  local instance, found = take(), {}
  for _, jid in ipairs(call('SMEMBERS', 'ql:taskvisor:held:' .. instance)) do
    local is_fine, job = pcall(read, jid, HELD)
    if is_fine and is_held(job) and job.instance == instance then
      found[#found + 1] = {jid, job.hold, job.life, number(job.order) or 0}
    else
      call('SREM', 'ql:taskvisor:held:' .. instance, jid)
    end
  end
  table.sort(found, function(one, two) return one[4] < two[4] end)
  for _, one in ipairs(found) do one[4] = nil end
  return found
end

-- A supervisor that comes back, after the proof that none of its jobs runs, releases what it held, apart from the jobs
-- that it settles itself.
if command == 'taskvisor.recover' then
  local instance, kept, released = take(), {}, {}
  for _ = 1, tonumber(take()) do kept[take()] = take() end
  for _, jid in ipairs(call('SMEMBERS', 'ql:taskvisor:held:' .. instance)) do
    local is_fine, job = pcall(read, jid, HELD)
    if not is_fine or not is_held(job) or job.instance ~= instance then
      call('SREM', 'ql:taskvisor:held:' .. instance, jid)
    elseif kept[jid] ~= job.hold then
      job.jid = jid
      released[#released + 1] = job
    end
  end
  -- One that cannot be put back stays held until its lease is over.
  local count = #released
  for _, job in ipairs(released) do
    if not pcall(safely, nil, job.jid, take_back, job.jid, job, #released == 1) then count = count - 1 end
  end
  return count
end
