-- pop: jobs for a worker.

local next_hold
if command == 'pop' or command == 'taskvisor.fetch' then
  -- The fence of a new lease. It differs from all earlier ones even if a failover has lost the last of them, or if the
  -- job was removed and put again: the fraction of the second is added.
  function next_hold(hold)
    return format('%d', (number(hold) or 0) + 1 + clock % 1 * 1000000)
  end
end

if command == 'pop' or command == 'peek' then
  -- Hands these jobs to a worker until `expires`.
  local function hand_out(jobs, queue, worker, expires)
    if #jobs == 0 then return end
    local until_text, time = format('%.17g', expires), format('%.20f', clock)
    local said = '{"worker":' .. encode(worker) .. '}'
    local leases, jids, waited = {}, {}, {}
    for i, job in ipairs(jobs) do
      local jid, hold = job.jid, next_hold(job.hold)
      history(jid, clock, 'popped', said)
      -- The worker from which `timeout` took the job does not have it any more.
      if job.worker ~= worker then forget_worker_job(job.worker, jid) end
      waited[i] = clock - (number(job.time) or clock)
      job.state, job.queue, job.worker, job.expires, job.hold = 'running', queue, worker, until_text, hold
      job.tracked = false
      call('HSET', 'ql:j:' .. jid, 'state', 'running', 'queue', queue, 'worker', worker, 'expires', until_text,
        'time', time, 'hold', hold)
      news('fetched', jid, queue, 'running')
      jids[i], leases[2 * i - 1], leases[2 * i] = jid, until_text, jid
    end
    stat('wait', queue, clock, waited)
    call_many('ZADD', 'ql:q:' .. queue .. '-locks', leases)
    call_many('ZREM', 'ql:q:' .. queue .. '-work', jids)
    call_many('ZADD', 'ql:w:' .. worker .. ':jobs', leases, aside)
    for from = 1, #jids, 1000 do
      local scores = aside('ZMSCORE', 'ql:tracked', unpack(jids, from, math.min(from + 999, #jids))) or {}
      for i, score in ipairs(scores) do
        jobs[from + i - 1].tracked = score ~= false
        if score then call('PUBLISH', 'ql:popped', jids[from + i - 1]) end
      end
    end
  end

  -- Adds the first waiting jobs, up to `most` in all. Removes ids without a job on the way.
  local function add_work(queue, jobs, most)
    local work, taken = 'ql:q:' .. queue .. '-work', 0
    while #jobs < most do
      local jids = call('ZREVRANGE', work, taken, taken + most - #jobs - 1)
      if #jids == 0 then return end
      for _, jid in ipairs(jids) do
        local job = job_of(jid)
        if job then
          jobs[#jobs + 1], taken = job, taken + 1
        else
          call('ZREM', work, jid)
        end
      end
    end
  end

  -- Takes at most `most` jobs for a worker, which holds them from now on.
  local function pop_jobs(queue, worker, most)
    if call('SISMEMBER', 'ql:paused_queues', queue) == 1 then return {} end
    need_lists(queue, '-work', '-locks')
    aside('ZADD', 'ql:workers', now, worker)
    local own_lease, lease, at_once, grace = unpack(call('HMGET', 'ql:config', queue .. '-heartbeat', 'heartbeat',
      queue .. '-max-concurrency', 'grace-period'))
    lease, at_once, grace = number(own_lease) or number(lease) or 60, number(at_once) or 0, number(grace) or 10
    if at_once > 0 then
      most = math.min(most, math.max(0, floor(at_once) - call('ZCOUNT', 'ql:q:' .. queue .. '-locks', now, '+inf')))
    end
    if most == 0 then return {} end
    release_more()
    put_strays_right()
    local jobs = {}
    for i, jid in ipairs(take_expired(queue, most, grace)) do jobs[i] = job_of(jid) end
    if #jobs < most then
      spawn_due(queue, most - #jobs)
      free_scheduled(queue, most - #jobs)
      add_work(queue, jobs, most)
    end
    hand_out(jobs, queue, worker, clock + lease)
    return jobs
  end

  if command == 'pop' then
    local queue, worker, most = unpack(args, 3, 5)
    need(queue, 'Pop(): Arg "queue" missing')
    need(worker, 'Pop(): Arg "worker" missing')
    local jobs = pop_jobs(queue, worker, need_count(most, 'Pop'))
    for i, job in ipairs(jobs) do jobs[i] = job_text(job, job.tracked) end
    return texts_of(jobs)
  end

  -- Looks without taking; due jobs are still moved, and recurring ones put.
  if command == 'peek' then
    local queue, most = unpack(args, 3, 4)
    need(queue, 'Peek(): Arg "queue" missing')
    most = need_count(most, 'Peek')
    if most == 0 then return '{}' end
    local jids = call('ZRANGEBYSCORE', 'ql:q:' .. queue .. '-locks', '-inf', now, 'LIMIT', 0, most)
    local rest = most - #jids
    if rest > 0 then
      spawn_due(queue, rest)
      free_scheduled(queue, rest)
      for _, jid in ipairs(call('ZREVRANGE', 'ql:q:' .. queue .. '-work', 0, rest - 1)) do jids[#jids + 1] = jid end
    end
    return jobs_text(jids)
  end
end
