--- Tasks that move to another CPU: how often, from where to where, and how long until they run there.
-- A task is moved when it is woken, when it is taken from a CPU that has too many, when it may run on others only. One that is moved
-- again before it ran is unmatched: it counts as a migration, but there is no time until it ran. A migration or a switch may come from
-- any task of the machine: with -p and a command, too, all of them are taken in, and what is lost of them is told here.
--   perilune sched-migrate -i 1000
--   perilune sched-migrate --filter 'nginx*' --than 10ms
local sched = require "sched"

local m = monitor {
  summary = "tasks that move to another CPU, and how long until they run there",
  order = true,
  options = {
    text { "filter", value = "GLOBS", help = "only tasks of these names: nginx,java*; not those behind a !" },
    duration { "than", unit = "ns", help = "print the migration and the switch of each longer wait" },
    "perins",
  },
}

function m.init(opt)
  local migrations = kv { perins "tid", "comm", count = "migrations", title = "migrations" }
  local waits = latency { { "from", arrow = true }, "to", title = "until it runs" }
  local moved = pending { "from", key = "tid", keep = opt.than }

  sched.watch(opt, "sched:sched_migrate_task", "pid", "comm", function(e)
    local tid = e.pid
    migrations:add(tid, e.comm)
    moved:open(tid, e, e.orig_cpu)
  end)
  sched.watch(opt, "sched:sched_switch", "next_pid", "next_comm", function(e)
    local move = moved:close(e.next_pid, e)
    if not move then return end
    waits:add(move.delay, move.from, e._cpu)
    if opt.than and move.delay > opt.than then emit(move.event, e, { delay_us = move.delay / 1000 }) end
  end)
end
return m
