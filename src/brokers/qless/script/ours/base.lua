-- Functions for taskvisor's own commands: the same keys as qless, a few more fields in a job's hash (see
-- docs/design/qless-script.md), and batches. Times in those fields are milliseconds. `order` is the time that sets the
-- place of a job among others; a job keeps it for life.

if ours then

-- Takes the next argument.
local at = 2
local function take()
  at = at + 1
  return args[at]
end

local function take_list()
  local values = {}
  for i = 1, tonumber(take()) do values[i] = take() end
  return values
end

local millis = format('%.0f', clock * 1000)

-- Fields of a job's hash by name; a missing one is nil.
local function read(jid, names)
  local values, job = call('HMGET', 'ql:j:' .. jid, unpack(names)), {}
  for i, name in ipairs(names) do job[name] = values[i] or nil end
  return job
end

-- The fields to read of a job that is held.
local HELD = {
  'state', 'worker', 'queue', 'klass', 'priority', 'time', 'retries', 'remaining', 'grace', 'hold', 'held_by',
  'instance', 'life', 'started', 'renewals', 'renewed', 'attempt', 'crashes', 'interrupted', 'canceling', 'order',
  'why', 'result', 'throttles',
}

-- Whether a supervisor of taskvisor holds a job, and no other program has taken it since.
local function is_held(job)
  return job.state == 'running' and job.hold and job.queue and job.worker == job.held_by
end

-- The kinds of a job's keys.
local KINDS = {[''] = 'hash', ['-history'] = 'list', ['-dependencies'] = 'set', ['-dependents'] = 'set'}

-- Calls `act` for a job. If a key of the job has a wrong type, that must not stop other jobs. If it is a key beside the
-- job's hash, it is removed and `act` is called once more. If it is the hash itself, this is no job: it is removed from
-- `list`, the key of a queue, if one is given.
local function safely(list, jid, act, ...)
  local is_fine, answer = pcall(act, ...)
  if is_fine then return answer end
  local is_mended = false
  for ending, kind in pairs(KINDS) do
    local key = 'ql:j:' .. jid .. ending
    local has = call('TYPE', key).ok
    if has ~= kind and has ~= 'none' then
      note_odd(key, has)
      is_mended = true
      if ending == '' then
        if list then call('ZREM', list, jid) end
        return
      end
      call('DEL', key)
    end
  end
  if not is_mended then error(answer, 0) end
  return act(...)
end

-- The first key of a queue with a wrong type, and that type.
local function spoiled_key(key)
  for _, ending in ipairs({'-work', '-locks', '-scheduled', '-depends', '-recur'}) do
    local has = call('TYPE', key .. ending).ok
    if has ~= 'zset' and has ~= 'none' then return key .. ending, has end
  end
end

-- The text of an error.
local function error_text(answer)
  return tostring(type(answer) == 'table' and answer.err or answer)
end

-- Calls `act` for a key, and says whether that went well; and its answer. An error is noted for the key that was
-- refused, and the caller goes on; `queue` and `jid` say what must wait for it.
local function attempt_for(key, queue, jid, act, ...)
  odd.latest = nil
  local is_fine, answer = pcall(act, ...)
  if is_fine then return true, answer end
  local spoiled, has = spoiled_key(key)
  if odd.latest then spoiled, has = unpack(odd.latest) end
  note_odd(spoiled or key, has or error_text(answer), queue, jid)
  return false
end

-- The same for a queue, or for one of its keys. Gives the answer.
local function guarded(key, queue, act, ...)
  local _, answer = attempt_for(key, queue, nil, act, ...)
  return answer
end

-- Whether an entry among the waiting jobs may wait there. It may not if the job has ended, waits for others or runs:
-- then another program has only left the entry there. A running job has a lock in its queue.
local function may_wait(state, jid, queue)
  if state == 'running' then return jid and not call('ZSCORE', 'ql:q:' .. (queue or '') .. '-locks', jid) end
  return state and state ~= 'complete' and state ~= 'failed' and state ~= 'canceled' and state ~= 'held'
    and state ~= 'depends'
end

-- A full Redis refuses a command that needs memory, unless the script has already written. So this writes first:
-- renewals and settlements of known jobs then work even if Redis is full.
local function write_though_full()
  aside('HDEL', 'ql:taskvisor:ended', '')
end

-- Wakes the supervisors that wait for jobs, once in a call: this queue has jobs, or will have some earlier than they
-- know.
local woken = {}
local function wake(queue)
  if not woken[queue] then call('PUBLISH', 'ql:taskvisor', queue) end
  woken[queue] = true
end

-- Counts jobs of a queue that ended in a state, as far as taskvisor ended them.
local function count_ended(queue, state, by)
  aside('HINCRBY', 'ql:taskvisor:ended', state .. ':' .. queue, by)
end

-- Adds a line of JSON to a job's history, which keeps the latest hundred.
local function note(jid, line)
  local key = 'ql:j:' .. jid
  local text = call('HGET', key, 'happened')
  text = text and text .. '\n' .. line or line
  local _, breaks = text:gsub('\n', '\n')
  if breaks >= 100 then text = text:match('^[^\n]*\n(.*)$') end
  call('HSET', key, 'happened', text)
end

-- Adds the line of an attempt that ended; `ended` has texts of JSON.
local function note_attempt(jid, job, state, ended)
  note(jid, '{"at":' .. (ended.at or millis) .. ',"attempt":{"attempt":' .. (job.attempt or 1)
    .. ',"fence":' .. job.hold
    .. ',"started_at":' .. (job.started or 'null') .. ',"instance":' .. encode(job.instance or '')
    .. ',"worker":' .. (job.life or 'null') .. ',"renewals":' .. (job.renewals or 0)
    .. ',"renewed_at":' .. (job.renewed or 'null') .. ',"state":"' .. state .. '","due_at":' .. (ended.due or 'null')
    .. ',"crashed":' .. (ended.crashed and 'true' or 'false') .. ',"counts":' .. (ended.counts or 'null')
    .. ',"failure":' .. (ended.failure or 'null') .. ',"forensics":' .. (ended.forensics or 'null') .. '}}')
end

-- How many jobs of a queue may run at once, looked up once in a call; 0: any number.
local bounds = {}
local function most_at_once(queue)
  if not bounds[queue] then
    local own, all = unpack(call('HMGET', 'ql:config', queue .. '-max-concurrency', 'max-concurrency'))
    bounds[queue] = math.ceil(number(own or all or 0) or 0)
  end
  return bounds[queue]
end

-- One job less runs in a queue: if it has a limit, or may have one, wakes supervisors.
local function make_room(queue)
  local is_known, most = pcall(most_at_once, queue)
  if not is_known or most > 0 then wake(queue) end
end

-- Adds a job of another program to the index of all jobs, if there is a job of that id. Gives its place.
local function give_place(jid)
  if call('HLEN', 'ql:j:' .. jid) == 0 then return end
  local place = aside('INCR', 'ql:taskvisor:place')
  if place then aside('ZADD', 'ql:taskvisor:jobs', 'NX', place, jid) end
  return place
end

-- Throttles of reqless: a job names some in its hash. Each throttle has a number of its jobs that may run, 0 = any.
-- Jobs that wait for one are in a list of their own until another of its jobs has ended.
local function throttles_of(text)
  local keys = text and json_names(text) or {}
  for i, name in ipairs(keys) do keys[i] = 'ql:th:' .. name end
  return keys
end

-- Asks for the kinds of the keys of a job's throttles.
local function need_throttles(text)
  for _, key in ipairs(throttles_of(text)) do
    need_kind('hash', key)
    need_kind('zset', key .. '-locks')
    need_kind('zset', key .. '-pending')
  end
end

-- How many more jobs of a throttle may run.
local function throttle_room(key)
  local most = number(call('HGET', key, 'maximum') or 0) or 0
  return most > 0 and math.max(most - call('ZCARD', key .. '-locks'), 0) or 1000
end

-- Takes a place in each throttle of a job that is to run. If one is full, the job waits for it: false.
local function take_throttles(jid, queue, text)
  local keys = throttles_of(text)
  need_throttles(text)
  need_lists(queue, '-throttled')
  for _, key in ipairs(keys) do
    if throttle_room(key) == 0 and not call('ZSCORE', key .. '-locks', jid) then
      call('ZADD', key .. '-pending', now, jid)
      call('ZADD', 'ql:q:' .. queue .. '-throttled', now, jid)
      if call('HGET', 'ql:j:' .. jid, 'state') ~= 'throttled' then
        call('HSET', 'ql:j:' .. jid, 'state', 'throttled')
        history(jid, clock, 'throttled', '{"queue":' .. encode(queue) .. '}')
      end
      return false
    end
  end
  for _, key in ipairs(keys) do call('ZADD', key .. '-locks', 1, jid) end
  return true
end

local leave_throttles
do
  -- A job that waited for a throttle waits for a worker again.
  local function leave_pending(jid, key)
    local queue, priority, order = fields(jid, 'queue', 'priority', 'order')
    if queue and call('ZSCORE', 'ql:q:' .. queue .. '-throttled', jid) then
      enter_work(jid, queue, priority, number(order) or clock)
      call('ZREM', 'ql:q:' .. queue .. '-throttled', jid)
      wake(queue)
    end
    call('ZREM', key .. '-pending', jid)
  end

  -- Leaves the throttles of a job. Jobs that waited for them go on; one that cannot does not stop the others, and is
  -- looked at again.
  function leave_throttles(jid, text)
    for _, key in ipairs(throttles_of(text)) do
      if call('ZREM', key .. '-locks', jid) == 0 then call('ZREM', key .. '-pending', jid) end
      local room = throttle_room(key)
      for _, other in ipairs(room > 0 and call('ZRANGE', key .. '-pending', 0, room - 1) or {}) do
        if not pcall(leave_pending, other, key) then
          call('ZREM', key .. '-pending', other)
          aside('SADD', STRAY, other)
        end
      end
    end
  end
end

-- Asks for the kinds of the keys that the end of a lease writes, with those of the list to which the job goes.
local function need_lease(job, ...)
  need_lists(job.queue, '-locks', ...)
  need_throttles(job.throttles)
  if job.instance then need_kind('set', 'ql:taskvisor:held:' .. job.instance) end
end

-- The same before a job fails, is held or is canceled. Indices of ended jobs are not asked for: an end that waited for
-- one would outlast its lease, and the job would run again.
local function need_end(queue)
  need_lists(queue, '-work', '-locks', '-scheduled')
end

-- The job has no holder any more.
local function let_go(jid, job)
  if job.throttles then leave_throttles(jid, job.throttles) end
  call('ZREM', 'ql:q:' .. job.queue .. '-locks', jid)
  forget_worker_job(job.worker, jid)
  if job.instance then call('SREM', 'ql:taskvisor:held:' .. job.instance, jid) end
  make_room(job.queue)
end

-- The jobs that were put with `expires` and are not leased, by the time (seconds) at which they fail. An entry of a job
-- that has ended or begun otherwise goes when that time comes.
local UNBEGUN = 'ql:taskvisor:unbegun'

-- Enters a job that was put with `expires` in UNBEGUN. If no other expires earlier, the supervisors are told, to
-- look in time.
local function expect_begin(jid)
  local put_at, within = fields(jid, 'put_at', 'begin_within')
  within = within and number(within)
  if not within then return end
  if not aside('ZADD', UNBEGUN, format('%.3f', ((number(put_at) or 0) + within) / 1000), jid) then return end
  if call('ZRANGE', UNBEGUN, 0, 0)[1] == jid then call('PUBLISH', 'ql:taskvisor', '') end
end

-- Puts a job without a holder back to waiting, at once or when it is due (milliseconds).
local function put_back(jid, job, due)
  local set = {'worker', '', 'expires', '0', 'time', now}
  if due then
    call('ZADD', 'ql:q:' .. job.queue .. '-scheduled', due / 1000, jid)
    call('HSET', 'ql:j:' .. jid, 'state', 'scheduled', 'due', due, unpack(set))
  else
    enter_work(jid, job.queue, job.priority, number(job.order) or clock)
    call('HSET', 'ql:j:' .. jid, 'state', 'waiting', unpack(set))
  end
  expect_begin(jid)
  wake(job.queue)
end

-- Fails a job, or holds it for a person. `why` is the text of the failure as taskvisor has it, with its group and
-- message.
local function end_badly(jid, job, state, why, group, message)
  local list = state == 'held' and 'held' or group
  local failure = failure_text(list, message, floor(clock), job.worker or '')
  local held = state == 'held' and '1' or '0'
  history(jid, clock, 'failed', '{"worker":' .. encode(job.worker or '') .. ',"group":' .. encode(list) .. '}')
  set_failed(jid, job.queue, clock, list, failure)
  call('HSET', 'ql:j:' .. jid, 'why', why, 'group', group, 'held', held, 'ended', millis)
  if state == 'failed' then index_or_stray('ql:taskvisor:failed', now, jid) end
  if state == 'held' then
    -- A held job has not failed: a person decides.
    count(job.queue, clock, 'failures', -1)
    count(job.queue, clock, 'failed', -1)
  end
  count_ended(job.queue, state, 1)
  tell_failed(jid, list, message, job.worker or '')
  news(state, jid, job.queue, state)
  tell_followers('failed', jid)
end

-- Ends a job that is canceling and has no process any more. Other clients of qless remove such a job; here people can
-- still see it.
local function end_canceled(jid, job, reason)
  call('HSET', 'ql:j:' .. jid, 'state', 'canceled', 'worker', '', 'expires', '0', 'ended', millis)
  call('HDEL', 'ql:j:' .. jid, 'canceling', 'grace', 'due')
  index_or_stray('ql:taskvisor:canceled', now, jid)
  count_ended(job.queue, 'canceled', 1)
  news('canceled', jid, job.queue, 'canceled', reason)
  -- The line on `ql:log` was written when the job was told to end.
  call('PUBLISH', 'ql:taskvisor:over', jid)
end

-- Whether a job is held after this many interruptions, and why. One that ran alone the last time is held sooner:
-- nothing else can have been the cause.
local function held_after(interrupted, ran_alone)
  if ran_alone and interrupted >= 3 then
    return 'its supervisor or host died ' .. interrupted .. ' times while it ran, the last time while no other job ran '
      .. 'there: it may be the cause'
  elseif interrupted >= 5 then
    return 'interrupted ' .. interrupted .. ' times, the last time by the death of its supervisor or host'
  end
end

-- Ends a lease without a settlement: its holder is dead, or its time is over. The attempt is not spent; the
-- interruption is counted. `ran_alone` says whether the holder is known to have had no other job.
local function take_back(jid, job, ran_alone)
  local interrupted = (number(job.interrupted) or 0) + 1
  need_lease(job, '-work')
  if job.canceling or held_after(interrupted, ran_alone) then need_end(job.queue) end
  let_go(jid, job)
  call('HSET', 'ql:j:' .. jid, 'interrupted', interrupted, 'attempt', math.max((number(job.attempt) or 1) - 1, 0))
  -- It may have begun: not to know is no proof.
  call('HDEL', 'ql:j:' .. jid, 'grace', 'begin_within')
  local ended, message = {counts = '"interrupted"'}, held_after(interrupted, ran_alone)
  if job.canceling then
    note_attempt(jid, job, 'canceled', ended)
    end_canceled(jid, job)
  elseif message then
    ended.failure = '{"group":"interrupted","message":"' .. message .. '"}'
    note_attempt(jid, job, 'held', ended)
    end_badly(jid, job, 'held', ended.failure, 'interrupted', message)
  else
    note_attempt(jid, job, 'waiting', ended)
    put_back(jid, job)
    news('lock_lost', jid, job.queue, 'waiting')
  end
end
