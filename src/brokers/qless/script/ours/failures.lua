-- Failures by group, and changes of many ended jobs at a time.

if command == 'taskvisor.groups' or command == 'taskvisor.held_groups' then
  local answers = {}
  local function group(name, jid, failed, held)
    local why, failure, ended, order = fields(jid, 'why', 'failure', 'ended', 'order')
    local seconds = number((json_table(failure or '') or {}).when) or 0
    ended = ended or format('%.0f', seconds * 1000)
    local answer = {name, failed, held, ended, order or '0', jid, why or failure or ''}
    answers[#answers + 1] = answer
    return answer
  end

  -- Groups of failed jobs by their names, each with its newest job.
  if command == 'taskvisor.groups' then
    for _, name in ipairs(args_from(3)) do
      local newest = name ~= 'held' and call('LINDEX', 'ql:f:' .. name, 0)
      if newest then group(name, newest, call('LLEN', 'ql:f:' .. name), 0) end
    end
    return answers
  end

  -- The groups of some held jobs, which are one list in qless.
  local from, rows, groups = tonumber(take()), tonumber(take()), {}
  local jids = call('LRANGE', 'ql:f:held', from, from + rows - 1)
  for _, jid in ipairs(jids) do
    local name, is_held = fields(jid, 'group', 'held')
    name = name or 'held'
    groups[name] = groups[name] or group(name, jid, 0, 0)
    local place = is_held == '1' and 3 or 2
    groups[name][place] = groups[name][place] + 1
  end
  return {#jids == rows and 1 or 0, answers}
end

-- Changes those of the next jobs that match. Gives where to go on, how many other jobs need, and which ones were
-- changed.
if command == 'taskvisor.sweep' then
  local act, line, is_dry, from, rows, most = take(), take(), take() == '1', take(), tonumber(take()), tonumber(take())
  local since, asked = tonumber(take()), take_asked()
  if asked.queue ~= '' and not call('ZSCORE', 'ql:queues', asked.queue) then return no('queue', asked.queue) end
  local looked, goes_on = stretch(from, rows, true)
  local done, needed, last = {}, 0, false
  for _, one in ipairs(looked) do
    if #done >= most then break end
    last = one.place
    local job = read(one.jid, LOOKED_AT)
    if job.state and matches(asked, one.jid, job) and (number(job.ended or 0) or 0) >= since then
      if act == 'discard' and #dependents(one.jid) > 0 then
        needed = needed + 1
      else
        done[#done + 1] = one.jid
        if is_dry then
          -- A dry run only counts.
        elseif act == 'retry' then
          retry(one.jid, line)
        else
          remove(one.jid, job)
        end
      end
    end
  end
  return {goes_on and #done < most and last or false, needed, done}
end
