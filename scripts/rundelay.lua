--- How long tasks wait for a CPU after a wakeup or a preemption.
-- A wait begins at the first of the two; a wakeup of a task that runs or waits already is ignored.
-- The wait is therefore the time in a run queue: RQ and R+ of task-state. A wait that began before
-- the run is not known. If a task leaves a CPU without a switch to it, its wait is unmatched.
-- --instead adds a table of the tasks that ran during the wait on the CPU where the task ran after
-- it; `(idle)` is the time until an idle CPU reacted. After a migration, a part of the wait was
-- on another CPU.
-- Since Linux 6.7, the kernel measures without records. --detail, --heatmap, --instead, --cgroup,
-- -C and globs of --filter need records. All scheduler events of the machine are then read, also
-- with -p or a COMMAND, because a wakeup comes from another task; the losses are those of all.
--   perilune rundelay -i 1000
--   perilune rundelay --than 10ms --filter 'nginx*' --perins
--   perilune rundelay --than 10ms --detail=samecpu
--   perilune rundelay --instead -p 1234
local delays, instead, sched = require "delays", require "instead", require "sched"

local m = monitor {
  summary = "how long tasks wait for a CPU after they were woken or preempted",
  group = "cpu", order = true, emits = { number { "delay_us" } },
  options = {
    "filter",
    duration { "than", unit = "ns", help = "print first and last event of each longer wait" },
    flag { "instead", help = "also show which tasks ran instead" }, "detail", "perins", "heatmap",
  },
}

function m.init(opt)
  local times = latency { perins "tid", "comm", { "after", sched.wait_after } }
  local beside = delays.beside(opt, {
    has_key = sched.is_about,
    heading = function(tid, comm) return { { "tid", tid }, { "comm", comm } } end,
  })
  local during = opt.instead and instead.table() or nil ---@type function?
  sched.measure_waits(opt, times, function(wait, e)
    local delay, tid, comm, after = wait.delay, e.next_pid, e.next_comm, wait.column3
    times:add(delay, tid, comm, after)
    if beside then beside(wait, e, delay, tid, comm, after) end
    if during then during(comm, e._cpu, wait.time, e._time) end
  end, beside, opt.instead and "--instead needs records" or delays.needs_records(opt))
end
return m
