-- get and multiget: jobs as they are.

if command == 'get' then
  local jid = need(args[3], 'Get(): Arg "jid" missing')
  local job = job_of(jid)
  return job and job_text(job, call('ZSCORE', 'ql:tracked', jid) ~= false)
end

if command == 'multiget' then return jobs_text(args_from(3)) end
