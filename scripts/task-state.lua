--- Time that tasks spend running, waiting for a CPU and sleeping.
-- States: R running; R+ preempted; RQ woken and waiting for a CPU; S interruptible sleep; D
-- uninterruptible sleep. The states of a task add up to the time between its first and its last
-- event in the run. A task that has been asleep since before the run is not shown: its state is
-- known from its next event on. States that have not ended are listed in a second table: D, or with
-- --than all that are longer; the event that began each of those is printed at the end of the run.
-- --than prints the two events of each longer stay, with -g the first one with its stack; -g alone
-- prints those of every stay. A flame graph contains the sleeps. -S and -D time only these sleeps,
-- at a fraction of the cost; --no-interruptible times all but S. --wakers adds a table of who woke
-- the tasks, where the wakeup was called; `(interrupt)` and `(softirq)` are no work of the task
-- that they interrupted. With -p or a COMMAND all scheduler events of the machine are read, because
-- a wakeup comes from another task; the losses shown are those of all these events. On recent
-- kernels a preempted task has prev_state 0x100, not 0: a filter prev_state==0 misses it.
-- As a source of events it emits each finished state, when it ends.
--   perilune task-state -D --than 100ms --filter 'nginx*' -g
--   perilune task-state --perins -- make -j8
local sched = require "sched"

local m = monitor {
  summary = "time tasks spend running, waiting for a CPU and sleeping",
  group = "processes",
  emits = { text { "state" }, number { "tid" }, text { "comm" }, number { "delay_us" } },
  order = true, idle = "a task that sleeps throughout the run has no events; see /proc/PID/stack",
  options = {
    "interruptible", "uninterruptible",
    flag { "no-interruptible", help = "all states but interruptible sleep (S)" },
    flag { "wakers", help = "also show who woke the tasks" },
    duration { "than", unit = "ms", help = "print stays longer than this" },
    "filter", "weight", "perins", "call-graph", "flame-graph", "perfetto",
  },
}

function m.init(opt)
  local printed = opt.than or opt.call_graph or opt.as_events
  local function draw(stay)
    if bit.band(stay.state, sched.ASLEEP) ~= 0 then emit(stay.event, { time = stay.delay }) end
  end
  local stays = states { perins "tid", { "state", sched.name }, "comm",
    count = "stays", than = opt.than ~= -1 and opt.than, keep = printed,
    longer = printed and (opt.flame_graph and draw or opt.as_events and sched.emit or sched.print) }

  local wakers ---@type perilune.Kv?
  if opt.wakers then wakers = kv { "comm", "woken by", count = "wakeups", top = 20 } end
  if wakers then
    sched.watch_wakers(opt, false, function(e, waker) wakers:add(e.comm, waker) end)
  end

  function m.interval() return stays, wakers, sched.not_ended(stays, opt.than) end
  function m.deinit()
    local print = printed and (opt.flame_graph and draw or opt.than and sched.print)
    return stays, wakers, sched.not_ended(stays, opt.than, print)
  end
  sched.follow(stays, opt)
end
return m
