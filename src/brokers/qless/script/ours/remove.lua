-- Ended jobs, and how they leave: back to waiting, or for good.

-- The state of a job in the words of taskvisor.
local function state_of(job)
  if job.state == 'running' then return job.canceling and 'canceling' or 'running' end
  if job.state == 'failed' then return job.held == '1' and 'held' or 'failed' end
  if job.state == 'scheduled' then return 'delayed' end
  if job.state == 'stalled' or job.state == 'throttled' then return 'waiting' end
  return job.state
end

local LOOKED_AT = {
  'state', 'canceling', 'held', 'queue', 'from', 'priority', 'order', 'worker', 'held_by', 'group', 'failure', 'ended',
}

local function queue_of(job)
  return job.queue ~= '' and job.queue or job.from or ''
end

-- Most jobs that an answer names, and that one call cancels.
local MOST_NAMES = 10001

-- The jobs that wait for a job, in the order in which they were put.
local function dependents(jid)
  local found = {}
  for _, other in ipairs(call('SRANDMEMBER', 'ql:j:' .. jid .. '-dependents', MOST_NAMES)) do
    local state, order = fields(other, 'state', 'order')
    if state == 'depends' then found[#found + 1] = {other, number(order) or 0} end
  end
  table.sort(found, function(one, two) return one[2] < two[2] or one[2] == two[2] and one[1] < two[1] end)
  for i, one in ipairs(found) do found[i] = one[1] end
  return found
end

-- Asks for the kinds of the keys that a job leaves with the state in which it ended.
local function need_left_end(job, state)
  local group = (json_table(job.failure or '') or {}).group
  need_kind('zset', state == 'complete' and 'ql:completed' or 'ql:taskvisor:canceled')
  need_failure(queue_of(job), type(group) == 'string' and group or 'held')
end

-- Takes a job out of the state in which it ended, with the index, the counter and the group of that state.
local function leave_end(jid, job, state)
  local queue = queue_of(job)
  if state == 'complete' then
    call('ZREM', 'ql:completed', jid)
  elseif state == 'canceled' then
    call('ZREM', 'ql:taskvisor:canceled', jid)
  else
    local failure = json_table(job.failure or '') or {}
    local group = tostring(failure.group or '')
    -- The oldest are at the end of the list, and are usually those to remove.
    if call('LREM', 'ql:f:' .. group, -1, jid) > 0 and call('EXISTS', 'ql:f:' .. group) == 0 then
      call('SREM', 'ql:failures', group)
    end
    call('ZREM', 'ql:taskvisor:failed', jid)
    if state == 'failed' then count(queue, number(failure.when) or clock, 'failed', -1) end
  end
  -- Jobs that another program ended were not counted.
  if job.ended then count_ended(queue, state, -1) end
end

-- Removes an ended job with all its keys.
local function remove(jid, job)
  local key, state = 'ql:j:' .. jid, state_of(job)
  need_left_end(job, state)
  news('removed', jid, queue_of(job), state)
  leave_end(jid, job, state)
  for _, other in ipairs(call('SMEMBERS', key .. '-dependents')) do
    call('SREM', 'ql:j:' .. other .. '-dependencies', jid)
  end
  for _, other in ipairs(call('SMEMBERS', key .. '-dependencies')) do
    call('SREM', 'ql:j:' .. other .. '-dependents', jid)
  end
  aside('ZREM', 'ql:tracked', jid)
  forget(jid, fields(jid, 'tags'))
end
