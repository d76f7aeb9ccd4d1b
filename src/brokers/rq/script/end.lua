local COMMANDS = {
  take = take, heads = heads, renew = renew, settle = settle, sign = sign, leave = leave, tick = tick,
  abandon = abandon, tidy = tidy, held = held_by, recover = recover, queues = queues,
  queue_names = queue_names, get = get, page = page, count_tasks = count_tasks, place = place, cancel = cancel,
  requeue = requeue, discard = discard, edit = edit, find = find, put = put, progress = progress,
}
-- A full Redis refuses a script's first write if that needs memory. Only a put may be refused, and what a person asks
-- for may only read; so the commands of supervisors begin with a DEL.
local OF_SUPERVISORS = {
  take = 1, renew = 1, settle = 1, sign = 1, leave = 1, tick = 1, abandon = 1, tidy = 1, recover = 1,
}
if OF_SUPERVISORS[ARGV[1]] then call('DEL', key('taskvisor', 'nothing')) end
return COMMANDS[ARGV[1]]()
