--- Words of the scheduler: the states of a task as `sched_switch` tells them, and the two that lie between.
local band = bit.band

--- `prev_state` is a mask: bits of a sleep, none of a task that gave its CPU away, and 0x100 where it was taken from it.
local sched = {
  UNTIMED = -1, RUNNING = 0, INTERRUPTIBLE = 0x1, UNINTERRUPTIBLE = 0x2, DEAD = 0x30, ASLEEP = 0xff, PREEMPTED = 0x100,
  WOKEN = 0x200,                                           -- ours: runnable since it was woken or made, not yet running
}

--- The state that a task goes into by a switch with this `prev_state`.
function sched.after(prev_state)
  local asleep = band(prev_state, sched.ASLEEP)
  return asleep == 0 and sched.PREEMPTED or asleep
end

--- How a state is shown: `S`, `D`, … as ps has them, `R` on a CPU; in the run queue `R+` preempted and `RQ` woken.
function sched.name(state)
  if state == sched.WOKEN then return "RQ" end
  return task_state(state)
end

--- The `prev_state` mask that -S and -D ask for; nil when neither is given.
function sched.mask(opt)
  local mask = (opt.interruptible and sched.INTERRUPTIBLE or 0) + (opt.uninterruptible and sched.UNINTERRUPTIBLE or 0)
  return mask > 0 and mask or nil
end

--- Watches an event for a monitor with the option `filter`: `task` and `name` say which of the event's tasks has to be a watched one.
function sched.watch(opt, event, task, name, handler)
  local ev = evsel(event, { task = task }, handler)
  return opt.filter and ev:matching(name, opt.filter) or ev
end

--- Prints a stay in a state: which and how long, the event that began it, and `e` that ended it, if it has ended.
function sched.print(stay, e)
  local tell = { state = sched.name(stay.state), delay_us = stay.delay / 1000 }
  if e then emit(stay.event, e, tell) else emit(stay.event, tell) end
end

local MOST = 20
local COLUMNS = { { "state", align = "left" }, { "comm", align = "left" }, "tid", "for(us)" }

--- A table of the states that have not ended, the longest first: of who is stuck, or of whoever is in one for longer than
-- `than`. Each of those that is longer than it, or simply each, is also given to `tell`.
function sched.not_ended(stays, than, tell)
  local rows = {}
  for tid, stay in stays:still(now()) do
    local long = stay.delay > (than or 0)
    if long and tell then tell(stay) end
    if long and (than or band(stay.state, sched.UNINTERRUPTIBLE) ~= 0) then
      rows[#rows + 1] = { sched.name(stay.state), stay.comm, tid, math.floor(stay.delay / 1e3) }
    end
  end
  table.sort(rows, function(a, b) return a[4] > b[4] end)
  for i = #rows, MOST + 1, -1 do rows[i] = nil end
  return #rows > 0 and report("not ended yet", COLUMNS, rows, "not_ended") or nil
end

return sched
