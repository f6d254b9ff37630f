--- Where tasks sleep, and who wakes them: the stack of the sleeper, the waker and its stack.
-- A sleep lasts from the switch away from a sleeping task until its wakeup. The wait for a CPU
-- after that is not included (see rundelay). The stack of the waker is taken where it calls the
-- wakeup, also if the sleeper is on another CPU. An interrupt that wakes is not work of the task
-- that it interrupts: its waker is `(interrupt)` or `(softirq)`, with its innermost kernel frames
-- only. Sleeps that have not ended are reported at the end of the run, with the waker `(asleep)`;
-- those that began before the run are not known. --wakers omits the stacks: who wakes whom. A flame
-- graph has the sleeper's stack, `--`, and above it the stack of the waker, innermost function
-- first. Its weight is the time, or the number of sleeps (--weight count). Functions that call the
-- C library are missing in it if that was built without frame pointers: use --call-graph dwarf.
--   perilune offcpu -p 1234
--   perilune offcpu --wakers -i 1000
--   perilune offcpu -D --heatmap sleeps.html
--   perilune offcpu -D --filter 'nginx*' --flame-graph sleeps
local explore, sched = require "explore", require "sched"

local m = monitor {
  summary = "where tasks sleep and who wakes them, with both stacks",
  group = "cpu", order = true,
  idle = "a task that sleeps throughout the run has no events; see /proc/PID/stack",
  options = {
    flag { "wakers", help = "only who wakes whom, without stacks" },
    integer { "rows", default = 20, help = "number of rows" },
    "uninterruptible", "filter", "weight", "call-graph", "flame-graph-over-time",
  },
}

function m.init(opt)
  local stacks = not opt.wakers and (opt.call_graph or "fp")
  local at, from = stacks and { "asleep in", stack_text }, stacks and { "woken by", stack_text }
  local graph = opt.flame_graph
    and kv { "comm", at, from, "waker", sums = { "time(ns)" }, weight = "time" }
  local times = not graph and latency { "comm", at, "waker", from, count = "sleeps",
    top = opt.rows, percentiles = not stacks }
  local asleep, add = pending { "stack", key = "tid" }, stacks and explore.stacks(opt, "ns")

  local function ended(name, sleep, ns, by, stack)
    if add and by ~= "(asleep)" then add(sleep.time + ns, ns, name, sleep.stack, stack, by) end
    if graph then graph:add(name, sleep.stack, stack, by, ns)
    else times:add(ns, name, sleep.stack, by, stack) end
  end
  local mask = opt.uninterruptible and sched.UNINTERRUPTIBLE or sched.ASLEEP - sched.DEAD
  sched.watch(opt, "sched:sched_switch", "prev_pid", "prev_comm", function(e)
    asleep:open(e.prev_pid, e, stacks and e._stack or stack.none)
  end, stacks):filter("prev_state & %d", mask)
  sched.watch_wakers(opt, stacks, function(e, waker)
    local sleep = asleep:close(e.pid, e)
    if sleep then ended(e.comm, sleep, sleep.delay, waker, stacks and e._stack or stack.none) end
  end)

  function m.deinit()
    for tid, sleep in asleep:each() do
      ended(comm(tid --[[@as integer]]), sleep, now() - sleep.time, "(asleep)", stack.none)
    end
    return graph or times
  end
end
return m
