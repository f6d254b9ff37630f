--- What the CPUs run, by samples: shares of processes and of the functions in them; with -g each sample with its stack, or a
-- flame graph. Of code without symbols the file is named. Shares are of the samples, and each table's add up to 100. Processes of
-- one name, each too light for a row, are a row together.
-- Idle CPUs are left out. 99 or 997 samples a second do not keep step with what happens 100 or 1000 times a second. Without -e it
-- samples the first that opens here of cycles:ppp, cycles:pp, cycles:p, cycles and cpu-clock, a timer; for --than and -F 0,
-- which want a share of the time, ref-cycles. --than prints, once a CPU's share of a second has reached it, the rest of the second.
--   perilune profile -F 997 -- make
--   perilune profile -F 99 -C 0 -g --exclude-user --than 30
--   perilune profile -F 0 -i 1000
--   perilune profile -F 997 -g --flame-graph cpu -i 600000
local share = require "share"

local m = monitor {
  summary = "sample what the CPUs run: shares of processes, stacks, flame graphs",
  idle = "a task is sampled once it has run for the time between two samples, 10 ms at -F 100; -F 9999 takes more",
  options = {
    event { "event", short = "e", help = "sample this event" },
    "freq", "period", "call-graph", "flame-graph", "exclude-user", "exclude-kernel", "exclude-guest", "guest",
    percent { "than", help = "only print samples, and their stacks, while a CPU is busier than this" },
    number { "rows", default = 12, help = "functions that are shown; the others are one row" },
  },
}

local SHARE, SAMPLES = "ref-cycles|cpu-clock", "cycles:ppp|cycles:pp|cycles:p|cycles|cpu-clock"
local PRECISION = { [0] = "not precise", "constant skid", "precise", "exact" }
---@type perilune.Evsel, perilune.Kv?, perilune.Counters?, number, (fun(stack: integer): string), integer
local ev, samples, shares, interval, symbol, most

--- Why this event cannot do what is asked: only hardware counters know of guests, counts of a clock have no modes, and what is
-- neither clock nor cycles does not tell how busy a CPU is.
local function refusal(opt)
  if opt.than and not (ev.name:find "%-clock" or ev.name:find "^ref%-cycles" or ev.name:find "^cycles" and not opt.period) then
    return ("--than: %s does not tell what share of the time a CPU is busy; leave -e away, or take -e cpu-clock"):format(ev.name)
  end
  if not (ev.name:find "%-clock" or ev.name:find "^sched:") then return end
  if opt.guest then return ("-G: %s does not tell guests from their host; that takes a hardware counter"):format(ev.name) end
  if opt.freq == 0 and (opt.exclude_user or opt.exclude_kernel) then
    return ("-F 0: %s does not tell user and kernel mode apart; leave -F 0 away and take samples"):format(ev.name)
  end
end

function m.init(opt)
  symbol, most = stack.format "symbol", math.max(1, math.floor(opt.rows))
  local exclude = { user = opt.exclude_user, kernel = opt.exclude_kernel, guest = opt.exclude_guest, host = opt.guest, idle = true }
  if opt.freq == 0 then
    if opt.call_graph or opt.than then error("-F 0 takes no samples: leave it away, or -g, --flame-graph and --than", 0) end
    ev = evsel(opt.event or "ref-cycles|sched:sched_stat_runtime|task-clock", { count = true, exclude = exclude })
    local why = refusal(opt)
    if why then error(why, 0) end
    local hz = ev.name:match "cycles" and machine.tsc_khz * 1e3 or 1e9
    shares = counters { { "share%", function(n) return share.of_time(n(ev), interval * hz) end } }
    return
  end
  local hz = not opt.period and opt.freq
  local printed, busy = opt.call_graph or opt.than, nil
  ev = evsel(opt.event or opt.than and SHARE or SAMPLES,
    { freq = hz, period = opt.period, stack = opt.call_graph or opt.than and "fp", functions = true, exclude = exclude })
  local why = refusal(opt)
  if why then error(why, 0) end
  if opt.than then busy = share.busier(ev, opt.than, ev.freq or 1e9 / ev.period) end
  if not printed then samples = kv { "pid", "comm", { "function", symbol }, sums = { "period", "samples" }, top = most } end
  ev:each(function(e)
    if busy and not busy(e) then return end
    if printed then emit(e) else samples:add(e._pid, e._comm, e._function, e._period, 1) end
  end)
end

function m.interval(seconds)
  interval = seconds
  if shares then return shares end
  if not samples then return end
  local rows = {}
  for pid, name, fn, period, n in samples:each() do rows[#rows + 1] = { period, n, name, pid, symbol(fn) } end
  samples:clear()
  local title = ("%s, %s"):format(ev.name, PRECISION[#(ev.name:match ":.-(p+)" or "")])
  return share.of_tasks(title, rows, most)
end
return m
