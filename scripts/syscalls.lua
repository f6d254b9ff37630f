--- Latency and errors of system calls, by call.
--   perilune syscalls
--   perilune syscalls -p 1234 --than 10ms --perins
local relation = require "relation"

local m = monitor {
  summary = "latency and errors of system calls, by call",
  group = "processes", order = true, every = "1s",
  idle = "a task that stays in one call has no events; see /proc/PID/stack",
  options = {
    "perins", "heatmap",
    duration { "than", unit = "ns", help = "print enter and exit of each longer call" },
    "detail",
  },
}

function m.init(opt)
  relation.syscalls({ { "raw_syscalls:sys_enter" }, { "raw_syscalls:sys_exit" } }, opt)
end
return m
