-- Statistics of the jobs of each class, by day.

local CLASSES = 'ql:taskvisor:classes:'
-- Most classes that are counted by themselves on a day, as users choose the names. The others are counted as one,
-- without a name.
local CLASSES_MAX = 100
-- Number of days that are kept before today.
local CLASS_DAYS = 90
-- The sums of each class, in this order; times in milliseconds.
local SUMS = {
  complete = 1, retries = 2, failed = 3, held = 4, ran = 5, longest = 6, measured = 7, cpu = 8, peak_rss = 9,
}

-- Sums of the attempts of this call, by class: written once.
local taken = {}

local function count_class(what, job, left)
  local ran = floor(math.max(left.ran or clock - (number(job.time) or clock), 0) * 1000 + 0.5)
  local class = job.klass or ''
  local sums = taken[class]
  if not sums then
    sums = {0, 0, 0, 0, 0, 0, 0, 0, 0}
    taken[class] = sums
  end
  sums[SUMS[what]], sums[SUMS.ran] = sums[SUMS[what]] + 1, sums[SUMS.ran] + ran
  if ran > sums[SUMS.longest] then sums[SUMS.longest] = ran end
  if left.cpu then sums[SUMS.measured], sums[SUMS.cpu] = sums[SUMS.measured] + 1, sums[SUMS.cpu] + left.cpu end
  if (left.peak_rss or 0) > sums[SUMS.peak_rss] then sums[SUMS.peak_rss] = left.peak_rss end
end

-- Adds sums to others, which may be none.
local function merged(had, more)
  if not had then return more end
  for i = 1, 9 do
    local is_largest = i == SUMS.longest or i == SUMS.peak_rss
    had[i] = is_largest and math.max(had[i], more[i]) or had[i] + more[i]
  end
  return had
end

-- Nine numbers; none from a value that another program has stored there.
local function read_sums(text)
  local sums = {}
  for word in string.gmatch(type(text) == 'string' and text or '', '%S+') do sums[#sums + 1] = number(word) end
  return #sums == 9 and sums or nil
end

local function write_classes()
  local key = CLASSES .. format('%d', clock / 86400)
  for class, more in pairs(taken) do
    local known = try('HGET', key, class)
    -- A value that another program has stored in place of the hash stays.
    if type(known) == 'table' then return end
    if not known and call('HLEN', key) - call('HEXISTS', key, '') >= CLASSES_MAX then
      class, known = '', call('HGET', key, '')
    end
    local sums = merged(read_sums(known), more)
    for i = 1, 9 do sums[i] = format('%.0f', sums[i]) end
    call('HSET', key, class, table.concat(sums, ' '))
    if not known then call('EXPIRE', key, (CLASS_DAYS + 2) * 86400) end
  end
end

-- The sums of the days from the first to the last: day, class, sums, and so on.
if command == 'taskvisor.classes' then
  local first, last, told = tonumber(take()), tonumber(take()), {}
  for day = first, last do
    local all = try('HGETALL', CLASSES .. format('%d', day))
    for i = 1, type(all) == 'table' and not all.err and #all or 0, 2 do
      if read_sums(all[i + 1]) then told[#told + 1] = {format('%d', day), all[i], all[i + 1]} end
    end
  end
  return told
end
