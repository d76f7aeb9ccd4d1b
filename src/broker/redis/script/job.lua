-- What clients are told of a job.

-- The text of a list or object as it is shown: anything else becomes `{}`, and so does an empty list.
local function shown(text)
  if not text or text == '{}' then return '{}' end
  return encode(list(text) or {})
end

-- A line of a history as an object. Those we write are turned as text; others (`log`, foreign ones) are read.
local function event_text(text)
  local when, what, extra = text:match('^%[(%d+),("%l[%l-]*"),?(.*)%]$')
  if when and extra == '' then return '{"when":' .. when .. ',"what":' .. what .. '}' end
  if when and extra:find('^{"[qw]') and not extra:find('"wh', 1, true) then
    return '{"when":' .. when .. ',"what":' .. what .. ',' .. extra:sub(2)
  end
  local entry = list(text) or {}
  local event = type(entry[3]) == 'table' and entry[3] or {}
  event.when, event.what = entry[1], entry[2]
  return encode(event)
end

local function history_text(jid)
  local events = call('LRANGE', 'ql:j:' .. jid .. '-history', 0, -1)
  if #events == 0 then return '{}' end
  for i, text in ipairs(events) do events[i] = event_text(text) end
  return '[' .. table.concat(events, ',') .. ']'
end

-- What of a job's hash is shown, in the order that `job_text` takes it.
local SHOWN = {
  'klass', 'state', 'queue', 'worker', 'priority', 'expires', 'retries', 'remaining', 'data', 'tags', 'failure',
  'spawned_from_jid',
}

-- A job as JSON, of the values of the fields in SHOWN. What a foreign hash lacks is shown as empty.
local function job_text(jid, is_tracked, klass, state, queue, worker, priority, expires, retries, remaining, data, tags,
                        failure, spawned)
  local key = 'ql:j:' .. jid
  return '{"jid":' .. encode(jid) .. ',"klass":' .. encode(klass or '') .. ',"state":' .. encode(state or '')
    .. ',"queue":' .. encode(queue or '') .. ',"worker":' .. encode(worker or '')
    .. ',"tracked":' .. (is_tracked and 'true' or 'false') .. ',"priority":' .. (number(priority) or 0)
    .. ',"expires":' .. (number(expires) or 0) .. ',"retries":' .. (number(retries) or 0)
    .. ',"remaining":' .. floor(number(remaining) or 0) .. ',"data":' .. encode(data or '{}')
    .. ',"tags":' .. shown(tags) .. ',"history":' .. history_text(jid) .. ',"failure":' .. shown(failure)
    .. ',"spawned_from_jid":' .. encode(spawned)
    .. ',"dependents":' .. encode(call('SMEMBERS', key .. '-dependents'))
    .. ',"dependencies":' .. encode(call('SMEMBERS', key .. '-dependencies')) .. '}'
end

-- A job as JSON, or nil if there is none.
local function read_job(jid)
  local values = call('HMGET', 'ql:j:' .. jid, unpack(SHOWN))
  for i = 1, #SHOWN do
    if values[i] then return job_text(jid, call('ZSCORE', 'ql:tracked', jid), unpack(values, 1, #SHOWN)) end
  end
end
