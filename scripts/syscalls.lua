--- Latency and errors of system calls, by call.
-- Calls without one of their two events are in a table of their own: exit and exit_group do not
-- return, nor does rt_sigreturn, which ends a signal handler and continues the interrupted code;
-- the execve of a COMMAND began before its events were enabled, and an execve by another thread
-- than the first one of its process returns in the first one. With -p, -t or a COMMAND, the calls
-- that have not returned at the end of the run are in a table with their ages.
-- With --than, a call of a descriptor has `file_now`, the file that the descriptor is when the line
-- is printed, and the common calls have their flags, operations and signals by name. System calls
-- of 32-bit programs have other numbers and are shown with the names of 64-bit calls.
-- Without --detail, --heatmap and --max-age, the kernel measures if it can, and writes records only
-- of calls that are longer than --than.
--   perilune syscalls
--   perilune syscalls -p 1234 --than 10ms --perins
--   perilune syscalls --only 'fsync,*sync,futex' --than 1ms
--   perilune syscalls --not nanosleep,poll,'epoll_*'
local calls_by_name, measure = require "calls_by_name", require "syscall_delays"

local m = monitor {
  summary = "latency and errors of system calls, by call",
  group = "processes", order = true, every = "1s",
  emits = { text { "syscall" }, number { "delay_us" }, text { "args" } },
  idle = "a task that stays in one call has no events; see /proc/PID/stack",
  options = {
    text { "only", value = "CALLS", help = "only these calls, names and globs: fsync,epoll_*" },
    text { "not", value = "CALLS", help = "omit these calls, names and globs: nanosleep,poll" },
    "perins", "heatmap",
    duration { "than", unit = "ns", help = "print enter and exit of each longer call" },
    "detail",
  },
}

local results ---@type function

function m.init(opt)
  local enter, exit = calls_by_name.filter(opt.only, opt.not_)
  local function stage(event, filter)
    return { filter and ("%s/%s/"):format(event, filter) or event }
  end
  local starts, ends = stage("raw_syscalls:sys_enter", enter), stage("raw_syscalls:sys_exit", exit)
  results = measure({ starts, ends }, opt)
end

function m.deinit() return results() end
return m
