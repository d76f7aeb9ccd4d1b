-- Concurrency limits: a job with a limit waits in no queue until it has one of the limit's slots.

-- Fills the free slots of a limit with waiting jobs, oldest first.
local function fill(limit, most)
  local name = key('rl', limit)
  while call('ZCARD', name .. ':allowed') < most do
    local first = call('ZRANGE', name .. ':rate_limited', 0, 0)[1]
    if not first then return end
    local origin, status, at_front = unpack(call('HMGET', job_key(first), 'origin', 'status', 'enqueue_at_front'))
    -- While another program uses the key of its queue, it waits here.
    local is = origin and call('TYPE', key('queue', origin))['ok'] or 'none'
    if is ~= 'list' and is ~= 'none' then return end
    call('ZREM', name .. ':rate_limited', first)
    if origin and status == 'rate_limited' then
      call('ZADD', name .. ':allowed', SECOND, first)
      call(at_front == '1' and 'LPUSH' or 'RPUSH', key('queue', origin), first)
      call('HSET', job_key(first), 'status', 'queued', 'enqueued_at', stamp(NOW))
    end
  end
end

local function most_of(limit) return amount(call('HGET', key('rl', limit), 'concurrency')) or 0 end

-- Frees the job's slot once its end is written, unless the job is in its queue again.
local function free_slot(id, limit)
  if not limit then return end
  local status = call('HGET', job_key(id), 'status')
  if status == 'queued' or status == 'started' then return end
  call('ZREM', key('rl', limit, 'allowed'), id)
  fill(limit, most_of(limit))
end

-- Puts a job into its queue, or makes it wait for a slot of its limit.
local function enqueue(queue, id, at_front)
  local limit = field(id, 'rate_limit_key')
  if not limit then return push(queue, id, at_front) end
  local most = amount(field(id, 'rate_limit_concurrency')) or 1
  call('SADD', key('rl-keys'), limit)
  call('HSET', key('rl', limit), 'concurrency', most)
  call('HSET', job_key(id), 'status', 'rate_limited', 'origin', queue)
  call('HSETNX', job_key(id), 'timeout', DEFAULT_TIMEOUT)
  if at_front then call('HSET', job_key(id), 'enqueue_at_front', 1) end
  expire_waiting(id)
  call('ZADD', key('rl', limit, 'rate_limited'), NOW, id)
  fill(limit, most)
end

-- Frees the rate slots of ended jobs, and removes empty sets.
local function tidy_limits()
  for _, limit in ipairs(call('SMEMBERS', key('rl-keys'))) do
    local name = key('rl', limit)
    for _, id in ipairs(call('ZRANGE', name .. ':allowed', 0, -1)) do
      local status = call('HGET', job_key(id), 'status')
      local is_kept = status == 'queued' or status == 'started'
      if not is_kept and call('ZCOUNT', key('executions', id), '(' .. NOW, '+inf') == 0 then
        call('ZREM', name .. ':allowed', id)
      end
    end
    fill(limit, most_of(limit))
    if call('ZCARD', name .. ':allowed') == 0 and call('ZCARD', name .. ':rate_limited') == 0 then
      call('SREM', key('rl-keys'), limit)
      call('DEL', name .. ':allowed', name .. ':rate_limited', name)
    end
  end
end
