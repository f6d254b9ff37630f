--- Which CPUs each thread ran on (with -p, -t or a COMMAND), or which threads ran on each CPU.
-- `ms` is the time on the CPU by the perf clock, also of stays that have not ended: interrupts and
-- the time that a hypervisor took are included. `cpu%` is its share of the CPU's time. A stay lasts
-- from the switch to a thread until the switch away from it, and is counted when it ends. `swapper`
-- is the idle task. A CPU without any event in the run has no row. --prio takes priorities of the
-- kernel: -1 deadline, 0-98 real time (98 is SCHED_FIFO 1), 100-139 nice -20 to 19. That of a
-- thread that has run since before the run is known from its next switch.
--   perilune oncpu -p 1234 -i 1000
--   perilune oncpu -C 0-3 --rows 5
--   perilune oncpu --prio 0-98
local grouped, ranges, running = require "grouped", require "ranges", require "running"

local m = monitor {
  summary = "which CPUs a thread ran on, and which threads ran on a CPU",
  group = "cpu", order = true, idle = "a thread that sleeps throughout the run is on no CPU",
  options = {
    text { "prio", value = "RANGES", help = "only threads with these priorities: 0-98,120" },
    integer { "rows", default = 20, help = "rows of a thread or CPU; the others are one row" },
  },
}

local times, still ---@type perilune.Kv, function
local within ---@type fun(prio: integer): boolean
local counted = 0 ---@type number                          -- stays are counted up to this time

function m.init(opt)
  within = opt.prio and ranges.of(opt.prio, "--prio") or function() return true end
  times = kv { "cpu", "tid", "comm", "prio", sums = { "ns", "stays" } }
  still = running.watch(function(e, since)
    local prio = e.prev_prio
    if not within(prio) then return end
    times:add(e._cpu, e.prev_pid, e.prev_comm, prio, e._time - math.max(since, counted), 1)
  end)
end

local COLUMNS = { "cpu", "tid", { "comm", align = "left" }, "prio",
  { "ms", decimals = 3, width = 10 }, { "cpu%", decimals = 2, width = 6 }, "stays" }

function m.interval(seconds)
  still(function(cpu, tid, since, prio)
    if not within(prio) then return end
    local name = tid == 0 and "swapper/" .. cpu or comm(tid)
    times:add(cpu, tid, name, prio, now() - math.max(since, counted), 0)
  end)
  local rows, threads = {}, per_thread()
  for cpu, tid, name, prio, ns, stays in times:each() do
    rows[#rows + 1] = { cpu, tid, name, prio, ns / 1e6, ns / seconds / 1e7, stays }
  end
  times:clear()
  counted = now()
  rows = grouped.rows(rows, { by = threads and 2 or 1, ascending = not threads,
    weight = 5, sums = { 5, 6, 7 }, text = 3, most = m.opt.rows })
  return report(false, COLUMNS, rows, "oncpu")
end
return m
