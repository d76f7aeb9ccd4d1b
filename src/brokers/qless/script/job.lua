-- Writes a job as JSON for clients.

local job_of, job_text, jobs_text, texts_of
if command == 'pop' or command == 'peek' or command == 'get' or command == 'multiget' or command == 'track' then
  -- A list or object as JSON; `{}` if it cannot be written, for example because of infinity.
  local function written(value)
    local fine, text = pcall(encode, value)
    return fine and text or '{}'
  end

  -- The text of a list or object as it is shown: any other text becomes `{}`, and so does an empty list.
  local function shown(text)
    if not text or text == '{}' then return '{}' end
    return written(json_table(text) or {})
  end

  -- The members of a job's key; none if another program has stored something else there.
  local function members(key)
    local found = try('SMEMBERS', key)
    return found.err and '{}' or encode(found)
  end

  -- A line of the history as an object. The usual form is converted directly; any other is parsed first.
  local function event_text(text)
    local when, what, extra = text:match('^%[(%d+),("%l[%l-]*"),({"%l+":"[^"\\]*")}%]$')
    if when then return extra .. ',"when":' .. when .. ',"what":' .. what .. '}' end
    local entry = json_table(text) or {}
    local event = type(entry[3]) == 'table' and entry[3] or {}
    event.when, event.what = entry[1], entry[2]
    return written(event)
  end

  local function history_text(jid)
    local events = try('LRANGE', 'ql:j:' .. jid .. '-history', 0, -1)
    if #events == 0 then return '{}' end
    for i, text in ipairs(events) do events[i] = event_text(text) end
    return '[' .. table.concat(events, ',') .. ']'
  end

  -- A job by the fields that are shown, and two that are not; nil if there is no such job.
  function job_of(jid)
    local job = {jid = jid}
    job.klass, job.state, job.queue, job.worker, job.priority, job.expires, job.retries, job.remaining, job.data,
      job.tags, job.failure, job.spawned_from_jid, job.time, job.hold =
      fields(jid, 'klass', 'state', 'queue', 'worker', 'priority', 'expires', 'retries', 'remaining', 'data', 'tags',
        'failure', 'spawned_from_jid', 'time', 'hold')
    if job.state or job.klass then return job end
  end

  -- A job as JSON. Fields that another program's hash lacks are shown as empty.
  function job_text(job, is_tracked)
    local key = 'ql:j:' .. job.jid
    return '{"jid":' .. encode(job.jid) .. ',"klass":' .. encode(job.klass or '')
      .. ',"state":' .. encode(job.state or '') .. ',"queue":' .. encode(job.queue or '')
      .. ',"worker":' .. encode(job.worker or '') .. ',"tracked":' .. tostring(is_tracked)
      .. ',"priority":' .. (number(job.priority) or 0) .. ',"expires":' .. (number(job.expires) or 0)
      .. ',"retries":' .. (number(job.retries) or 0) .. ',"remaining":' .. floor(number(job.remaining) or 0)
      .. ',"data":' .. encode(job.data or '{}') .. ',"tags":' .. shown(job.tags)
      .. ',"history":' .. history_text(job.jid) .. ',"failure":' .. shown(job.failure)
      .. ',"spawned_from_jid":' .. encode(job.spawned_from_jid)
      .. (call('EXISTS', key .. '-dependents', key .. '-dependencies') == 0 and ',"dependents":{},"dependencies":{}}'
        or ',"dependents":' .. members(key .. '-dependents') .. ',"dependencies":' .. members(key .. '-dependencies')
        .. '}')
  end

  -- Texts as a JSON list; an empty one is `{}`, as Lua writes an empty table.
  function texts_of(texts)
    return #texts == 0 and '{}' or '[' .. table.concat(texts, ',') .. ']'
  end

  -- Jobs as a JSON list, without ids that are no jobs.
  function jobs_text(jids)
    local texts = {}
    for _, jid in ipairs(jids) do
      local job = job_of(jid)
      if job then texts[#texts + 1] = job_text(job, call('ZSCORE', 'ql:tracked', jid) ~= false) end
    end
    return texts_of(texts)
  end
end
