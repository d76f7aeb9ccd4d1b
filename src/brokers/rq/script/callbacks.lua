-- Callbacks of jobs that ended outside of a worker: a worker gets an order to run them. Such an order is taken, held,
-- released and removed like a job, before all other jobs of its queue. It has the hash of a job with few fields, so
-- that no worker of RQ runs it; a separate hash keeps the job as it was.
local ORDER_TTL = 86400

local function subject(order) return key('taskvisor', 'callback', order) end

-- Writes an order for the callback of a job's end, before that end is written. `said` is for the worker: the kind of
-- callback and its arguments.
local function order_callback(queue, id, said)
  if said.kind == 'stopped' and not field(id, 'stopped_callback_name') then return end
  -- RQ 3 takes no id with this letter; that a user of RQ 1 or 2 chose just this one is not likely.
  local order = id .. '@taskvisor-callback'
  said.id = id
  call('COPY', job_key(id), subject(order), 'REPLACE')
  call('HSET', subject(order), 'taskvisor_callback', cjson.encode(said))
  call('HSET', job_key(order), 'status', 'queued', 'origin', queue, 'taskvisor_callback', said.kind,
    'description', 'the callback of ' .. id .. ', which is ' .. said.kind)
  call('LREM', order_list(queue), 0, order)
  call('RPUSH', order_list(queue), order)
  for _, name in ipairs({ subject(order), job_key(order), order_list(queue) }) do call('EXPIRE', name, ORDER_TTL) end
end

-- The next order of a queue; nil if there is none.
local function next_order(queue)
  while true do
    local order = call('LINDEX', order_list(queue), 0)
    if not order then return nil end
    if is_order(order) then return order end
    call('LPOP', order_list(queue))
  end
end

-- Removes an order that was carried out, or cannot be.
local function end_order(queue, order, execution, worker)
  forget(queue, order, execution, worker)
  call('DEL', job_key(order), subject(order))
end
