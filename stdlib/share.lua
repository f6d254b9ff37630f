--- Shares of a whole, in percent that add up to 100; and of a CPU's time.
local share = {}

local PROCESSES = 5

--- Shares of `values`, in order, as percent with two decimals. Each is rounded down, and the hundredths that are left go to
--- those that lost most by it (the method of the largest remainder): so they add up to 100, and none is off by more than 0.01.
function share.of(values)
  local total, shares, rests, left = 0, {}, {}, 10000
  for _, value in ipairs(values) do total = total + value end
  if total <= 0 then
    for i in ipairs(values) do shares[i] = 0 end
    return shares
  end
  for i, value in ipairs(values) do
    local exact = value * 10000 / total
    shares[i] = math.floor(exact)
    rests[i] = { i, exact - shares[i] }
    left = left - shares[i]
  end
  table.sort(rests, function(a, b) if a[2] ~= b[2] then return a[2] > b[2] end return a[1] < b[1] end)
  for i = 1, left do shares[rests[i][1]] = shares[rests[i][1]] + 1 end
  for i = 1, #shares do shares[i] = shares[i] / 100 end
  return shares
end

local function heavier(a, b)
  if a[1] ~= b[1] then return a[1] > b[1] end
  return a.key < b.key
end

--- Takes the rows behind the first `most` out of `all`, and puts in what they add up to: those of one comm, and of one function, are a
--- row, `make (57 processes)`, if that is heavier than what was left; the rest is one row, `(23 others)`.
local function fold(all, most)
  local count = #all - most
  if count < 2 then return end                             -- in the place of one row that row itself says more
  local groups, by_name, least = {}, {}, all[most][1]
  for _ = 1, count do
    local row = table.remove(all)
    local name = row[3] .. "\0" .. (row[5] or "")
    local group = by_name[name]
    if not group then
      group = { 0, 0, row[3], nil, row[5], key = name, rows = 0 }
      by_name[name], groups[#groups + 1] = group, group
    end
    group[1], group[2], group.rows = group[1] + row[1], group[2] + row[2], group.rows + 1
  end
  table.sort(groups, heavier)
  local weight, samples, left, shown = 0, 0, 0, 0
  for _, group in ipairs(groups) do
    if group.rows > 1 and group[1] > least and shown < most then
      group[3], shown = ("%s (%d processes)"):format(group[3], group.rows), shown + 1
      all[#all + 1] = group
    else
      weight, samples, left = weight + group[1], samples + group[2], left + group.rows
    end
  end
  table.sort(all, heavier)
  if left > 0 then all[#all + 1] = { weight, samples, ("(%d others)"):format(left) } end
end

--- A report of shares. Each row is a weight, a count, a comm, a pid and maybe a function; rows that have all the same are one, the
--- heaviest come first, those after the first `most` are added up.
local function shares_of(title, columns, rows, most, name)
  local merged, all = {}, {}
  for _, row in ipairs(rows) do
    row.key = table.concat(row, "\0", 3)
    local same = merged[row.key]
    if same then
      same[1], same[2] = same[1] + row[1], same[2] + row[2]
    else
      merged[row.key], all[#all + 1] = row, row
    end
  end
  table.sort(all, heavier)
  fold(all, most)
  local weights = {}
  for i, row in ipairs(all) do weights[i] = row[1] end
  for i, percent in ipairs(share.of(weights)) do all[i][1] = percent end
  local shown = { { "share %", width = 7, decimals = 2 }, { columns[1], width = 8 } }
  for i = 2, #columns do shown[i + 1] = { columns[i], align = "left" } end
  return report(title, shown, all, name)
end

--- Two reports: of the processes, `PROCESSES` of them, and of `most` functions in them. Each row is a weight, a count of samples, a
--- comm, a pid and a function.
function share.of_tasks(title, rows, most)
  local processes = {}
  for i, row in ipairs(rows) do processes[i] = { unpack(row, 1, 4) } end
  return shares_of(title, { "samples", "comm", "pid" }, processes, PROCESSES, "processes"),
    shares_of(false, { "samples", "comm", "pid", "function" }, rows, most, "functions")
end

--- What share of `whole` was run, in percent: of a CPU's time at most all. What its tasks ran is told when they are switched and at
--- ticks, so up to a tick of it is that of the interval before. Of a thread it is more when its children, which are counted
--- with it, run beside it.
function share.of_time(ran, whole)
  local percent = 100 * ran / whole
  return per_thread() and percent or math.min(percent, 100)
end

--- Whether a CPU's share of the running second had reached `percent` before the sample at hand: a function of the sample. Of
--- `ref-cycles` their sum tells, against the time stamp counter's frequency; of a clock its samples, `hz` of them a second.
function share.busier(ev, percent, hz)
  local cycles = ev.name:match "^ref%-cycles"
  local enough = percent / 100 * (cycles and machine.tsc_khz * 1e3 or hz)
  local second, spent = per_cpu(-1), per_cpu(0)
  return function(e)
    local cpu, now = e._cpu, math.floor(e._time / 1e9)
    if second[cpu] ~= now then second[cpu], spent[cpu] = now, 0 end
    local before = spent[cpu]
    spent[cpu] = before + (cycles and e._period or 1)
    return before >= enough
  end
end

return share
