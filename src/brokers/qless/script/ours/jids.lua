-- Ids that are not UTF-8. Other clients allow any bytes in an id; a supervisor takes only UTF-8, and would run a job
-- that it can neither renew nor settle.

-- The sequences of UTF-8 with more than one byte, without overlong ones and surrogates.
local SEQUENCES = {
  '^[\194-\223][\128-\191]()', '^\224[\160-\191][\128-\191]()', '^[\225-\236\238\239][\128-\191][\128-\191]()',
  '^\237[\128-\159][\128-\191]()', '^\240[\144-\191][\128-\191][\128-\191]()',
  '^[\241-\243][\128-\191][\128-\191][\128-\191]()', '^\244[\128-\143][\128-\191][\128-\191]()',
}

local function is_text(jid)
  local at = jid:find('[\128-\255]')
  while at do
    local after
    for _, sequence in ipairs(SEQUENCES) do after = after or jid:match(sequence, at) end
    if not after then return false end
    at = jid:find('[\128-\255]', after)
  end
  return true
end

-- Fails a waiting job because of its id.
local function refuse_jid(jid, queue)
  local shown = jid:gsub('[^\32-\126]', function(byte) return format('\\x%02x', byte:byte()) end)
  local group, message = 'taskvisor-jid', 'the id of the job is not UTF-8, so it cannot be run: ' .. shown
  local why = '{"group":' .. encode(group) .. ',"message":' .. encode(message) .. '}'
  need_failure(queue, group)
  end_badly(jid, {queue = queue, worker = ''}, 'failed', why, group, message)
end
