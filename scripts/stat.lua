--- Counts events: the count of each interval, the rate per second, and the share of the time in
-- which they were counted. Nothing is sampled, so the overhead per event is small. Tracepoints and
-- software events are read as one group per CPU or thread. Hardware events share the counters of a
-- CPU: if `counted` is below 100 %, the count is an estimate. The events of a metric are counted at
-- the same times, and -e need not name them. sched_stat_* events count nanoseconds, in a row of
-- their own, on the CPU that accounts them: a task that wakes another one may account the time of
-- that task's CPU. A thread's row includes threads that it starts; the run ends when all watched
-- tasks have ended. Events in braces are one group: they are counted at the same times and read at
-- once. The boxes of an uncore PMU are added up: uncore_imc/EVENT/ counts uncore_imc_0,
-- uncore_imc_1 and so on.
--   perilune stat -e context-switches,page-faults -i 1000
--   perilune stat -e syscalls:sys_enter_getppid -i 1 --perins
--   perilune stat -e '{raw_syscalls:sys_enter,raw_syscalls:sys_exit}' -- make
--   perilune stat --metric 'ipc=instructions/cycles' -- make
--   perilune stat -e page-faults --cgroup system.slice,user.slice
local metric = require "metric"

local m = monitor {
  summary = "count events and their ratios, per CPU, thread or cgroup",
  group = "events",
  every = "1s",
  options = {
    events { "event", short = "e", help = "events to count; without it, four software events" },
    text { "metric", value = "NAME=EXPR,…", help = "show ratios of counts" },
    text { "cgroup", value = "PATH,…", help = "count the tasks of these cgroups or globs" },
    flag { "pinned", help = "keep hardware events on their counters; report those without one" },
    flag { "no-merge", help = "a row for each event of a glob and each box of an uncore PMU" },
    "perins", "exclude-user", "exclude-kernel", "exclude-guest", "guest",
  },
}
---@type perilune.Counters, perilune.CountedSet[]
local all, sets

function m.init(opt)
  if opt.freq or opt.period then error("-F, -c: counted events have no rate; omit them", 0) end
  all, sets = counters {}, metric.sets(opt)
end

function m.interval(seconds)
  local cgroup = m.opt.cgroup and { "cgroup", align = "left" } or false
  local event, name = { "event", align = "left" }, { "metric", align = "left" }
  local count = { "count", decimals = metric.decimals(sets), metric = "counter" }
  local rate = { "per_second", decimals = 1 }
  local share, value = { "counted%", decimals = 1 }, { "value", decimals = 3 }
  local counts, ratios = metric.rows(all, sets, seconds, m.opt.perins, m.opt.no_merge)
  local columns = { cgroup, perins(), event, count, rate, share }
  return #counts > 0 and report(false, columns, counts, "counts"),
    #ratios > 0 and report(false, { cgroup, perins(), name, value }, ratios, "metrics")
end
return m
