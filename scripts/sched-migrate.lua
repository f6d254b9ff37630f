--- Tasks that move to another CPU: how often, between which CPUs, and when they run there.
-- A task moves when it is woken, when its CPU has too many tasks, or when it may only run on other
-- CPUs. The wait is the time from the migration until the task runs. --why shows why the scheduler
-- moved them, by the kernel functions that did (a stack of 5 frames per migration): `wakeup` chose
-- another CPU, `idle balance` a CPU that became idle took the task, `load balance` and `active
-- balance` evened out the queues, `affinity or exec` another CPU was demanded. A task that moves
-- again before it runs is unmatched: it counts as a migration without a wait. With -p or a COMMAND
-- all scheduler events of the machine are read, because these events come from any task; the losses
-- shown are those of all these events.
--   perilune sched-migrate -i 1000
--   perilune sched-migrate --filter 'nginx*' --than 10ms
--   perilune sched-migrate --why -- make -j8
local delays, migration, sched = require "delays", require "migration", require "sched"

local m = monitor {
  summary = "tasks that move to another CPU, and how long until they run there",
  group = "cpu", order = true, emits = { number { "delay_us" } },
  options = {
    "filter",
    duration { "than", unit = "ns", help = "print migration and switch of each longer wait" },
    flag { "why", help = "also show why the scheduler moved them" }, "perins",
  },
}

function m.init(opt)
  local migrations = kv { perins "tid", "comm", opt.why and "why",
    count = "migrations", title = "migrations" }
  local add = delays.table(opt, { { "from", arrow = true }, "to", title = "until it runs" })
  local moved = pending { "from", key = "tid", keep = opt.than }

  local why = opt.why and migration.reasons()
  local ev = evsel("sched:sched_migrate_task", {
    task = "pid", stack = opt.why and "fp", exclude_callchain_user = opt.why and 1,
    sample_max_stack = opt.why and migration.FRAMES,
  }, function(e)
    local tid = e.pid
    migrations:add(tid, e.comm, why and why(e._stack))
    moved:open(tid, e, e.orig_cpu)
  end)
  if opt.filter then ev:matching("comm", opt.filter) end
  sched.watch(opt, "sched:sched_switch", "next_pid", "next_comm", function(e)
    local move = moved:close(e.next_pid, e)
    if move then add(move, e, move.delay, move.from, e._cpu) end
  end)
end
return m
