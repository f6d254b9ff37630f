--- What tasks ask of the kernel: latency and failures of system calls, by call.
--   perilune syscalls
--   perilune syscalls -p 1234 --than 10ms --perins
local relation = require "relation"

local m = monitor {
  summary = "latency and errors of system calls, by call",
  order = true, every = "1s", idle = "who waits in one call all the time makes none; /proc/PID/stack tells where",
  options = {
    "perins", "heatmap",
    duration { "than", unit = "ns", help = "print enter and exit of each longer call" },
    "detail",
  },
}

function m.init(opt) relation.syscalls({ { "raw_syscalls:sys_enter" }, { "raw_syscalls:sys_exit" } }, opt) end
return m
