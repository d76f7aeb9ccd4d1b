-- Facts about jobs in messages of other scripts: their queues, states and tags.

if command == 'taskvisor.about' then
  local answers = {}
  for i, jid in ipairs(take_list()) do
    local job = read(jid, LOOKED_AT)
    answers[i] = {queue_of(job), state_of(job) or false, fields(jid, 'tags')}
  end
  return answers
end
