--- Tasks that move to another CPU: how often, between which CPUs, and when they run there.
-- A task moves when it is woken, when its CPU has too many tasks, or when it may only run on other
-- CPUs. The wait is the time from the migration until the task runs.
-- A task that moves again before it runs is unmatched: it counts as a migration without a wait.
-- With -p or a COMMAND all scheduler events of the machine are read, because these events come from
-- any task; the losses shown are those of all these events.
--   perilune sched-migrate -i 1000
--   perilune sched-migrate --filter 'nginx*' --than 10ms
local longer, sched = require "longer", require "sched"

local m = monitor {
  summary = "tasks that move to another CPU, and how long until they run there",
  order = true,
  options = {
    text { "filter", value = "GLOBS", help = "only tasks with these names: nginx*,!java-debug" },
    duration { "than", unit = "ns", help = "print migration and switch of each longer wait" },
    "perins",
  },
}

function m.init(opt)
  local migrations = kv { perins "tid", "comm", count = "migrations", title = "migrations" }
  local waits = latency { { "from", arrow = true }, "to", title = "until it runs" }
  local moved = pending { "from", key = "tid", keep = opt.than }
  local print = longer.printer(opt.than)

  sched.watch(opt, "sched:sched_migrate_task", "pid", "comm", function(e)
    local tid = e.pid
    migrations:add(tid, e.comm)
    moved:open(tid, e, e.orig_cpu)
  end)
  sched.watch(opt, "sched:sched_switch", "next_pid", "next_comm", function(e)
    local move = moved:close(e.next_pid, e)
    if not move then return end
    waits:add(move.delay, move.from, e._cpu)
    print(move, e, move.delay)
  end)
end
return m
