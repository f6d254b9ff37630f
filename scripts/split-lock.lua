--- Split locks: locked instructions across two cache lines, which stop all CPUs' access to memory.
-- The event that counts them depends on the model of the CPU; it includes locks on uncacheable
-- memory. One of -T split locks of a CPU is sampled: the task that made it, and its location.
-- --test makes 100000 of them in a separate process and watches only that one. A kernel that traps
-- split locks (split_lock_detect) may slow down or kill that process.
--   perilune split-lock -i 1000
--   perilune split-lock -T 100 -g -p 1234
--   perilune split-lock -T 10000 --test
local split_locks = require "split_locks"

local m = monitor {
  summary = "split locks, and the tasks that make them",
  group = "cpu", emits = {},
  every = "1s",
  options = {
    integer { "trigger", short = "T", least = 0, default = 1000,
      help = "sample one of this many split locks; 0 only counts" },
    flag { "test", load = "split-locks", help = "make split locks and watch only those" },
    event { "event", short = "e", help = "event that counts them, if none is known" },
    "call-graph", "guest",
  },
}

function m.init(opt)
  if opt.freq or opt.period then error("-F, -c: use -T, which sets the rate of samples", 0) end
  local exclude = { host = opt.guest }
  -- cpu-clock opens on every machine.
  local event = opt.event or split_locks.event(machine.cpu) .. "|cpu-clock"
  local title = not opt.event and "split locks" or nil
  local counted = evsel(event, { count = true, title = title, exclude = exclude })
  if not opt.event and counted.name:find "^cpu%-clock" then
    split_locks.refuse "its hardware counters are not available here, as on most virtual machines"
  end
  counters { counted }
  if opt.trigger == 0 then return end
  evsel(event, { period = opt.trigger, stack = opt.call_graph, exclude = exclude }, emit)
end
return m
