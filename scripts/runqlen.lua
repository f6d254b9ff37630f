--- Length of the run queue of each CPU over time: tasks that are ready to run and wait.
-- Computed from scheduler events, not sampled: a task waits from its wakeup or preemption until it
-- runs, and moves with its migrations. The running task is not counted; tasks of all classes are. A
-- task that waits since before the run, or since events were lost, counts once it has run. avg, and
-- the shares of time with 1, 2, and 3 or more waiting tasks, are weighted by time. `over time`
-- divides the interval into at most 40 equal parts and shows the average of each, rounded up: `.`
-- is 0, `+` more than 9. With -C, the events of all CPUs are read: a task may be woken from any.
--   perilune runqlen -i 1000
--   perilune runqlen -C 0-7 -- make -j16
local levels, run_queue = require "levels", require "run_queue"

local m = monitor {
  summary = "length of the run queue of each CPU over time",
  group = "cpu", order = true, every = "1s", whole_cpus = true,
}

local lengths, current, recount ---@type perilune.Levels, table<integer, number>, fun()

function m.init()
  lengths = levels.of(cpus())
  current, recount = run_queue.watch(function(cpu, time, length) lengths:add(cpu, time, length) end)
end

local COLUMNS = { "cpu", { "avg", decimals = 2, width = 6 }, "max", { "1%", decimals = 1 },
  { "2%", decimals = 1 }, { "3+%", decimals = 1 },
  { "over time", align = "left", metric = "none" } }

function m.interval()
  local rows = lengths:rows(now(), current)
  recount()
  return report(false, COLUMNS, rows, "runqlen")
end
return m
