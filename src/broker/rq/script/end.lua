local COMMANDS = {
  take = take, heads = heads, renew = renew, settle = settle, sign = sign, leave = leave, tick = tick,
  abandon = abandon, tidy = tidy, held = held_by, recover = recover, queues = queues, queue_names = all_queues,
  get = get, page = page, count_tasks = count_tasks, place = place, cancel = cancel, requeue = requeue,
  discard = discard, find = find, put = put, progress = progress,
}
return COMMANDS[ARGV[1]]()
