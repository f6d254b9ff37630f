--- Scheduler states of a task: those of `sched_switch`, and the two states in a run queue.
local band = bit.band

--- `prev_state` is a mask: the bits of a sleep, 0 if the task yielded its CPU, 0x100 if it was
--- preempted.
local sched = {
  UNTIMED = -1, RUNNING = 0, INTERRUPTIBLE = 0x1, UNINTERRUPTIBLE = 0x2,
  DEAD = 0x30, ASLEEP = 0xff, PREEMPTED = 0x100,
  WOKEN = 0x200,                                           -- not in the kernel: woken or new
}

--- Returns the state that a task enters by a switch with this `prev_state`.
function sched.after(prev_state)
  local asleep = band(prev_state, sched.ASLEEP)
  return asleep == 0 and sched.PREEMPTED or asleep
end

--- Returns the name of a state: `S`, `D`, … as in ps, `R` on a CPU; in the run queue `R+` preempted
--- and `RQ` woken.
function sched.name(state)
  if state == sched.WOKEN then return "RQ" end
  return task_state(state)
end

--- Returns the `prev_state` mask of -S and -D, or nil if neither is given.
function sched.mask(opt)
  local interruptible = opt.interruptible and sched.INTERRUPTIBLE or 0
  local uninterruptible = opt.uninterruptible and sched.UNINTERRUPTIBLE or 0
  local mask = interruptible + uninterruptible
  return mask > 0 and mask or nil
end

--- Opens an event for a monitor with the option `filter`. The event's field `task` must be a
--- watched task; `name` is the field of its name. With -g or `stack`, a switch has its stack.
---@param handler? fun(e: perilune.Record)
---@param stack? string|boolean
function sched.watch(opt, event, task, name, handler, stack)
  stack = stack or event == "sched:sched_switch" and opt.call_graph
  local ev = evsel(event, { task = task, stack = stack }, handler)
  return opt.filter and ev:matching(name, opt.filter) or ev
end

-- `common_flags` of an event in an interrupt: TRACE_FLAG_HARDIRQ and TRACE_FLAG_SOFTIRQ.
local HARDIRQ, SOFTIRQ = 0x8, 0x10
local INTERRUPT_FRAMES = 5                                 -- the rest is what was interrupted

--- Watches wakeups where the waker calls them (`sched_waking`). Calls `woken(e, waker)`: `e.pid` is
--- the task that is woken, `waker` the name of the task that wakes it, or `(interrupt)` or
--- `(softirq)`. With `stack`, the method of call chains, an interrupt has its innermost frames.
function sched.watch_wakers(opt, stack, woken)
  local both = HARDIRQ + SOFTIRQ
  local function watch(spec, handler)
    spec.task = "pid"
    local ev = evsel("sched:sched_waking", spec, handler)
    return opt.filter and ev:matching("comm", opt.filter) or ev
  end
  local function by_task(e) woken(e, e._comm) end
  local function by_interrupt(e)
    woken(e, band(e.common_flags, HARDIRQ) ~= 0 and "(interrupt)" or "(softirq)")
  end
  if not stack then
    watch({}, function(e)
      if band(e.common_flags, both) == 0 then by_task(e) else by_interrupt(e) end
    end)
    return
  end
  watch({ stack = stack }, by_task):filter("!(common_flags & %d)", both)
  -- A copy of the user stack would be that of the task that was interrupted. Not `max_stack`: the
  -- frames that are left out are not missing.
  watch({ stack = "fp", exclude_callchain_user = 1, sample_max_stack = INTERRUPT_FRAMES },
    by_interrupt):filter("common_flags & %d", both)
end

--- Returns the switches away from watched tasks and those to them, for a monitor with the option
--- `filter`: one evsel if all tasks are watched.
function sched.switch_sides(opt)
  local leaves = sched.watch(opt, "sched:sched_switch", "prev_pid", "prev_comm")
  if not opt.filter and not some_tasks() then return leaves, leaves end
  return leaves, sched.watch(opt, "sched:sched_switch", "next_pid", "next_comm")
end

--- Watches switches, for a monitor with the option `filter`: `leaves(e)` is called for the previous
--- task of a switch, then `comes(e)` for the next one, each only if that task is watched. If all
--- tasks are watched, `both(e)` may replace the two calls.
---@param leaves fun(e: perilune.Record)
---@param comes fun(e: perilune.Record)
---@param both? fun(e: perilune.Record)
function sched.watch_switches(opt, leaves, comes, both)
  local from, to = sched.switch_sides(opt)
  if from ~= to then
    from:each(leaves)
    to:each(comes)
    return
  end
  from:each(both or function(e) leaves(e) comes(e) end)
end

local WAKEUP, PREEMPTED, AFTER = 1, 2, { "wakeup", "preempted" }

--- Returns the text of the column `after` of waits.
function sched.wait_after(after) return AFTER[after] end

--- Returns the handlers of records of waits: for wakeups, switches away from a task and to it.
local function waits_of(waits, ended)
  local ASLEEP = sched.ASLEEP                              -- includes the bits of sched.DEAD
  local UNKNOWN, ANOTHER = -1, 0                           -- the idle task, or one not watched
  local running = per_cpu(UNKNOWN)                         -- the task that runs on each CPU
  local watched, sees_all = {}, true
  for _, cpu in ipairs(cpus()) do watched[cpu] = true end
  local function woken(e)
    local tid, cpu = e.pid, e.target_cpu
    if not watched[cpu] then sees_all = false              -- with -C
    elseif running[cpu] == tid then return
    elseif sees_all then waits:open_once(tid, e, WAKEUP)
    else waits:open(tid, e, WAKEUP) end                    -- the last one may have ended elsewhere
  end
  local function leaves(e)
    local tid, state = e.prev_pid, e.prev_state
    if tid == 0 then return end
    local on = running[e._cpu]
    running[e._cpu] = ANOTHER
    if on == UNKNOWN then waits:close(tid, e)              -- it has run since before the run
    elseif on ~= tid then waits:miss(tid) end
    if band(state, ASLEEP) == 0 then waits:open(tid, e, PREEMPTED) end
  end
  local function comes(e)
    local tid = e.next_pid
    running[e._cpu] = tid
    local wait = tid ~= 0 and waits:close(tid, e)
    if wait then ended(wait, e) end
  end
  return woken, leaves, comes
end

--- Follows how long tasks wait for a CPU, with the options `filter` and `than`: adds the waits to
--- `times`, a latency with the columns of the thread, its name, and what the wait began with, see
--- `sched.wait_after`. From records, calls `ended(wait, e)` instead when a task begins to run: `e`
--- is the switch to it, `wait.column3` what the wait began with. `long` takes the waits longer than
--- `opt.than` that the kernel measures, as `pair` of `between`. `needs` is the reason why records
--- are needed, or nil. If a task leaves a CPU without a switch to it, its wait is unmatched.
---@param times perilune.Latency
---@param ended fun(wait: perilune.State, e: perilune.Record)
---@param long? fun(wait: perilune.State, e: perilune.Record, delay: number, ...: any)
---@param needs? string
function sched.measure_waits(opt, times, ended, long, needs)
  local leaves, comes = sched.switch_sides(opt)
  local woken = sched.watch(opt, "sched:sched_wakeup", "pid", "comm")
  local new = sched.watch(opt, "sched:sched_wakeup_new", "pid", "comm")
  local by_wakeup = { [3] = tostring(WAKEUP) }
  times:between({
    { woken, key = "pid", once = true, rows = by_wakeup },
    { new, key = "pid", once = true, rows = by_wakeup },
    { leaves, key = "prev_pid", rows = { [3] = tostring(PREEMPTED) },
      where = ("prev_pid != 0 && !(prev_state & %d)"):format(sched.ASLEEP) },
  }, { comes, key = "next_pid", where = "next_pid != 0", rows = { "next_pid", "next_comm" } }, {
    threads = true, keep = opt.than, needs = needs, pair = long, than = opt.than,
    -- The wait of a wakeup while the task ran.
    drops = { leaves, key = "prev_pid", where = "prev_pid != 0",
      last = ("prev_state & %d"):format(sched.DEAD) },
    records = function(waits)
      local on_wakeup, on_leaving, on_coming = waits_of(waits, ended)
      return { { woken, on_wakeup }, { new, on_wakeup }, { leaves, on_leaving },
        { comes, on_coming } }
    end,
  })
end

--- Returns whether a switch or a wakeup is about a task.
function sched.is_about(e, tid)
  if e._event.name == "sched:sched_switch" then return e.prev_pid == tid or e.next_pid == tid end
  return e.pid == tid
end

--- Ends the state of a thread that executes a program and is not the first one of its process: it
--- continues under the number of the first one, which has ended.
local function follow_execs(stays, opt)
  local function watch(handler)
    return evsel("sched:sched_process_exec", { optional = true, task = "pid" }, function(e)
      if e.old_pid ~= e.pid then handler(e) end
    end)
  end
  watch(function(e) stays:leave(e.old_pid, e) end)
  local begins = watch(function(e) stays:enter(e.pid, e, e.pid, sched.RUNNING, e._comm) end)
  if begins and opt.filter then begins:matching("_comm", opt.filter) end
end

--- Watches the events that change the states of tasks, and keeps the states in `stays`. The states
--- of `opt.interruptible` and `opt.uninterruptible` are followed alone, at a fraction of the cost.
--- With `opt.no_interruptible` interruptible sleeps are not timed.
---@param stays perilune.States
function sched.follow(stays, opt)
  local after, DEAD, RUNNING, only = sched.after, sched.DEAD, sched.RUNNING, sched.mask(opt)
  if only and opt.perfetto then error("--perfetto needs every switch; omit -S and -D", 0) end
  if opt.no_interruptible then
    function after(prev_state)
      local state = sched.after(prev_state)
      return state == sched.INTERRUPTIBLE and sched.UNTIMED or state
    end
  end
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
  -- Cheaper than the two.
  local function both(e)
    local prev, state, next = e.prev_pid, e.prev_state, e.next_pid
    if band(state, DEAD) ~= 0 then leaves(e) comes(e) return end
    state = after(state)
    local known, known_next = stays:switch(prev, state, next, e)
    if not known then stays:enter(prev, e, prev, state, e.prev_comm) end
    if not known_next then stays:enter(next, e, next, RUNNING, e.next_comm) end
  end
  local ASLEEP, woken = sched.ASLEEP, only and sched.UNTIMED or sched.WOKEN
  sched.watch(opt, "sched:sched_wakeup", "pid", "comm",
    function(e) stays:move_from(ASLEEP, e.pid, e, woken) end)
  if only then
    local ev = sched.watch(opt, "sched:sched_switch", "prev_pid", "prev_comm", leaves)
    ev:filter("prev_state & %d", only)
    return
  end
  sched.watch(opt, "sched:sched_wakeup_new", "pid", "comm",
    function(e) stays:enter(e.pid, e, e.pid, sched.WOKEN, e.comm) end)
  follow_execs(stays, opt)
  sched.watch_switches(opt, leaves, comes, both)
end

--- Prints a stay in a state: its state and duration, the event that began it, and if it has ended,
--- the event `e` that ended it.
function sched.print(stay, e)
  local shown = { state = sched.name(stay.state), delay_us = stay.delay / 1000 }
  if e then emit(stay.event, e, shown) else emit(stay.event, shown) end
end

--- Emits a finished state as an event, with its task.
function sched.emit(stay)
  emit(stay.event, { state = sched.name(stay.state), tid = stay.tid, comm = stay.comm,
    delay_us = stay.delay / 1000 })
end

local MOST = 20
local COLUMNS = { { "state", align = "left" }, { "comm", align = "left" }, "tid", "for(us)" }

--- Returns a table of the states that have not ended, the longest first: uninterruptible sleeps, or
--- with `than` all states that are longer. Calls `print` for each state longer than `than`, or for
--- each one without `than`.
function sched.not_ended(stays, than, print)
  local rows = {}
  for tid, stay in stays:still(now()) do
    local long = stay.delay > (than or 0)
    if long and print then print(stay) end
    if long and (than or band(stay.state, sched.UNINTERRUPTIBLE) ~= 0) then
      rows[#rows + 1] = { sched.name(stay.state), stay.comm, tid, math.floor(stay.delay / 1e3) }
    end
  end
  table.sort(rows, function(a, b) return a[4] > b[4] end)
  for i = #rows, MOST + 1, -1 do rows[i] = nil end
  return #rows > 0 and report("not ended yet", COLUMNS, rows, "not_ended") or nil
end

return sched
