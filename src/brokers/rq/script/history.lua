-- A job's history in fields of its hash. taskvisor_history has the latest twenty lines of JSON. taskvisor_attempts and
-- taskvisor_crashes count the attempts of a job that is tried again. taskvisor_canceled keeps the result of a job that
-- is canceled while it runs, until its end is written.
local LINES = 20
local INTERRUPTED = ',"counts":"interrupted"'

local function millis(at) return string.format('%.0f', math.floor(at * 1000)) end

local function forget_counts(id)
  call('HDEL', job_key(id), 'taskvisor_interrupted', 'taskvisor_attempts', 'taskvisor_crashes', 'taskvisor_canceled')
end

local function note(id, happened)
  local name, line = job_key(id), '{"at":' .. millis(NOW) .. ',' .. happened .. '}'
  local text = call('HGET', name, 'taskvisor_history')
  text = text and text .. '\n' .. line or line
  local _, breaks = string.gsub(text, '\n', '')
  if breaks >= LINES then text = string.match(text, '\n(.*)$') end
  call('HSET', name, 'taskvisor_history', text)
end

-- The line of an attempt that is about to end, as far as it is known by now.
local function attempt_of(id, execution, held)
  local spent, started = unpack(call('HMGET', job_key(id), 'taskvisor_attempts', 'started_at'))
  local began = seconds_of(started or nil)
  return '"attempt":{"attempt":' .. (tonumber(spent or nil) or 0) + 1
    .. ',"fence":' .. string.format('%.0f', tonumber(string.sub(execution, 17), 16) or 0)
    .. ',"started_at":' .. (began and millis(began) or 'null')
    .. ',"instance":' .. cjson.encode(held.instance) .. ',"worker":' .. (held.slot or 'null')
end

-- Adds the state that an attempt gave the job, if the job still exists. `ended` is the rest of the line.
local function note_attempt(id, attempt, state, ended)
  local origin = call('HGET', job_key(id), 'origin')
  if not origin then return end
  local due = state == 'delayed' and call('ZSCORE', key('scheduled', origin), id)
  local due_at = due and millis(tonumber(due)) or 'null'
  note(id, attempt .. ',"state":"' .. state .. '","due_at":' .. due_at .. ended .. '}')
end

-- Counts a spent attempt of a job that is tried again.
local function spend(id, state, is_crash)
  if state ~= 'waiting' and state ~= 'delayed' then return end
  call('HINCRBY', job_key(id), 'taskvisor_attempts', 1)
  if is_crash then call('HINCRBY', job_key(id), 'taskvisor_crashes', 1) end
end
