-- Writes the ends of jobs, puts jobs, and takes back those of a dead supervisor.

-- The states of jobs that are not tried again, by verdict.
local DEAD_STATES = { fail = 'failed', hold = 'held' }

local function settle(one, verdict, seconds, why)
  if verdict == 'canceled' or one.canceling then return cancel_one(one) end
  if DEAD_STATES[verdict] then
    bury(one, why)
    return DEAD_STATES[verdict]
  elseif verdict == 'release' then
    if why ~= '' then one.losses = one.losses + 1 end
    return unspent(one, seconds)
  elseif verdict == 'advance' then
    one.attempts, one.losses = 0, 0
    back(one, seconds)
    return 'complete'
  end
  return back(one, seconds)
end

local function not_ours(id)
  local is_known = call('HEXISTS', RESULTS, id) == 1 or not is_gone(id, call('HGET', VALUES, id))
  return is_known and 'not_ours' or 'gone'
end

-- The answer to a settlement that the supervisor repeats because the first answer was lost; else `gone` if nothing is
-- known of the job, and `not_ours` if it is another's.
local function told_before(id, fence, verdict)
  if verdict == 'complete' and call('ZSCORE', DONE, id .. ' ' .. fence) then return verdict end
  -- It waits again, by that settlement or as its lease is over: nobody has died.
  if verdict == 'release' or verdict == 'retry' then return 'waiting' end
  local dead = DEAD_STATES[verdict] and call('HGET', DEAD, id)
  if dead and string.match(dead, '^%S+') == fence then return DEAD_STATES[verdict] end
  return not_ours(id)
end

function commands.settle()
  local ends, ids, answers, complete, fences, results = {}, {}, {}, {}, {}, {}
  for i = 1, tonumber(arg()) do
    ends[i] = {
      id = arg(), fence = arg(), verdict = arg(), seconds = tonumber(arg()), text = arg(), is_again = arg() == '1',
    }
    ids[i] = ends[i].id
  end
  local known, tills, scores = many('HMGET', JOBS, ids), many('ZMSCORE', UNTIL, ids), many('ZMSCORE', WORKING, ids)
  local is_told = {}
  for i, one in ipairs(ends) do
    local held = read(one.id, known[i])
    if held.is_odd then
      answers[i] = odd(one.id)
    elseif is_told[one.id] or held.fence ~= one.fence or not is_ours(one.id, tills[i], scores[i]) then
      answers[i] = one.is_again and told_before(one.id, one.fence, one.verdict) or not_ours(one.id)
    elseif one.verdict == 'complete' then
      add(complete, one.id)
      add(fences, one.fence)
      add(results, one.id, one.text)
      answers[i], is_told[one.id] = 'complete', true
    else
      answers[i], is_told[one.id] = settle(held, one.verdict, one.seconds, one.text), true
    end
  end
  many('HSET', RESULTS, results)
  done(complete, fences)
  return answers
end

-- Puts all jobs, or none and gives the id of one that exists. A repeated put, whose first reply was lost, is recognized
-- by its token until its job has ended.
function commands.put()
  local jobs, known = {}, {}
  for i = 1, tonumber(arg()) do
    local one = { id = arg(), value = arg(), seconds = tonumber(arg()), skips = arg() == '1', token = arg() }
    one.exists = known[one.id] or call('HEXISTS', VALUES, one.id) == 1
    local is_again = not known[one.id] and job(one.id).token == one.token
    if one.exists and not one.skips and not is_again then return one.id end
    known[one.id], jobs[i] = true, one
  end
  for _, one in ipairs(jobs) do
    if not one.exists then
      call('HSET', VALUES, one.id, one.value)
      keep({ id = one.id, attempts = 0, losses = 0, token = one.token })
      if one.seconds > 0 then delay(one.id, one.seconds) else call('LPUSH', PENDING, one.id) end
    end
  end
end

-- Cancels jobs that supervisors run: each hears of that with its next renewal. Gives the state of each; an empty one if
-- there is no such job.
function commands.cancel()
  local answers = {}
  for i, id in ipairs(args()) do
    local one, score = job(id), call('ZSCORE', WORKING, id)
    if not one.is_odd and one.fence and is_ours(id, call('ZSCORE', UNTIL, id), score) then
      one.canceling = true
      keep(one)
      answers[i] = 'canceling'
    elseif score then
      answers[i] = call('ZSCORE', UNTIL, id) and 'delayed' or 'running'
    elseif call('HEXISTS', RESULTS, id) == 1 then
      answers[i] = 'complete'
    elseif call('HEXISTS', VALUES, id) == 1 then
      answers[i] = call('HEXISTS', DEAD, id) == 1 and not call('LPOS', PENDING, id) and 'failed' or 'waiting'
    else
      answers[i] = ''
    end
  end
  return answers
end

-- Takes back what an instance held when it died. The first list is of fences to keep, the second of jobs that a person
-- has canceled.
function commands.recover()
  local holder, kept, canceled = arg(), {}, {}
  for _, fence in ipairs(args()) do kept[fence] = true end
  for _, fence in ipairs(args()) do canceled[fence] = true end
  local function give(one)
    if canceled[one.fence] then settle(one, 'canceled', 0, '') else lost(one) end
  end
  return release(function(one) return one.holder == holder and not kept[one.fence] end, give)
end
