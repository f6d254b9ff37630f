--- Where the time of tasks goes: running (R), waiting for a CPU (R+ preempted, RQ woken), asleep (S), stuck (D).
-- The times of a task add up to the wall time from the first of its switches and wakeups that is seen to the last. A stay that began
-- before the run is not known: who sleeps since then is not there. One that goes on when it is drawn stands in a table of its own,
-- if the task is stuck or, with --than, it is that long already; the event that began it is then printed at the end. A preempted
-- task has the prev_state 0x100, not 0, on recent kernels: a filter prev_state==0 misses it. With -S or -D only those sleeps are
-- timed, at a fraction of the cost. --than prints the two events of each longer stay, the first with -g with the stack that began
-- it; so does -g alone, of all. A flame graph has the sleeps. A switch or a wakeup may come from any task of the machine: with -p
-- and a command, too, all of them are taken in, and what is lost of them is told here.
--   perilune task-state -D --than 100ms --filter 'nginx*' -g
--   perilune task-state --perins -- make -j8
local sched = require "sched"
local band, after, DEAD, ASLEEP, RUNNING, WOKEN = bit.band, sched.after, sched.DEAD, sched.ASLEEP, sched.RUNNING, sched.WOKEN

local m = monitor {
  summary = "time tasks spend running, waiting for a CPU, asleep (S) and stuck (D)",
  order = true, idle = "who sleeps all the time is neither switched nor woken; /proc/PID/stack tells where",
  options = {
    flag { "interruptible", short = "S", help = "time TASK_INTERRUPTIBLE" },
    flag { "uninterruptible", short = "D", help = "time TASK_UNINTERRUPTIBLE" },
    duration { "than", unit = "ms", help = "print each stay in a state that is longer" },
    text { "filter", value = "GLOBS", help = "only tasks of these names: nginx,java*; not those behind a !" },
    choice { "weight", of = { "count", "time" }, help = "what the flame graph adds up" },
    "perins", "call-graph", "flame-graph",
  },
}

function m.init(opt)
  local only, told, SWITCH = sched.mask(opt), opt.than or opt.call_graph, "sched:sched_switch"
  local function draw(stay) if band(stay.state, ASLEEP) ~= 0 then emit(stay.event, { time = stay.delay }) end end
  local stays = states { perins "tid", { "state", sched.name }, "comm",
    count = "stays", than = opt.than, keep = told, longer = told and (opt.flame_graph and draw or sched.print) }

  function m.interval() return stays, sched.not_ended(stays, opt.than) end
  function m.deinit() return stays, sched.not_ended(stays, opt.than, told and (opt.flame_graph and draw or opt.than and sched.print)) end

  local function leaves(e)
    local tid, state = e.prev_pid, e.prev_state
    if tid == 0 then return end
    if band(state, DEAD) ~= 0 then stays:leave(tid, e) return end
    state = after(state)
    if not stays:switch(tid, state, 0, e) then stays:enter(tid, e, tid, state, e.prev_comm) end
  end
  local function comes(e)
    local tid = e.next_pid
    local _, known = stays:switch(0, RUNNING, tid, e)
    if not known then stays:enter(tid, e, tid, RUNNING, e.next_comm) end
  end

  --- Of a switch, `task` and `name` say which of its two tasks has to be a watched one.
  local function watch(event, task, name, handler)
    local ev = evsel(event, { task = task, stack = event == SWITCH and opt.call_graph }, handler)
    return opt.filter and ev:matching(name, opt.filter) or ev
  end
  watch("sched:sched_wakeup", "pid", "comm", function(e) stays:move_from(ASLEEP, e.pid, e, only and sched.UNTIMED or WOKEN) end)
  if only then
    watch(SWITCH, "prev_pid", "prev_comm", leaves):filter("prev_state & %d", only)
    return
  end
  watch("sched:sched_wakeup_new", "pid", "comm", function(e) stays:enter(e.pid, e, e.pid, WOKEN, e.comm) end)
  if opt.filter or per_thread() then
    watch(SWITCH, "prev_pid", "prev_comm", leaves)
    watch(SWITCH, "next_pid", "next_comm", comes)
  else
    evsel(SWITCH, { stack = opt.call_graph }, function(e)
      local prev, state, next = e.prev_pid, e.prev_state, e.next_pid
      if band(state, DEAD) ~= 0 then leaves(e) comes(e) return end
      state = after(state)
      local known, known_next = stays:switch(prev, state, next, e)
      if not known then stays:enter(prev, e, prev, state, e.prev_comm) end
      if not known_next then stays:enter(next, e, next, RUNNING, e.next_comm) end
    end)
  end
end
return m
