-- Fetches whose replies were lost: the connection broke, or the caller gave up.

-- Puts a job back if one of these fetches gave it. It was not begun, so nothing is spent and no interruption is
-- counted.
local function give_back_of(jid, instance, unheard)
  local job = read(jid, HELD)
  if not is_held(job) or job.instance ~= instance or not unheard[fields(jid, 'fetch')] then return end
  need_lease(job, '-work')
  if job.canceling then need_end(job.queue) end
  let_go(jid, job)
  call('HSET', 'ql:j:' .. jid, 'attempt', math.max((number(job.attempt) or 1) - 1, 0))
  call('HDEL', 'ql:j:' .. jid, 'grace', 'fetch')
  if job.canceling then
    end_canceled(jid, job)
  else
    put_back(jid, job)
    news('again', jid, job.queue, 'waiting')
  end
end

-- Puts back the jobs of these fetches. Says whether `fetch` is one of them: a fetch that arrives only now, by an old
-- connection, must give nothing.
local function is_unheard(instance, fetch, fetches)
  local key, unheard = 'ql:taskvisor:unheard:' .. instance, {}
  if #fetches > 0 then
    for _, one in ipairs(fetches) do unheard[one] = true end
    call_many('SADD', key, fetches)
    call('EXPIRE', key, 3600)
    for _, jid in ipairs(call('SMEMBERS', 'ql:taskvisor:held:' .. instance)) do
      attempt_for('ql:j:' .. jid, nil, jid, safely, nil, jid, give_back_of, jid, instance, unheard)
    end
  end
  return call('SISMEMBER', key, fetch) == 1
end
