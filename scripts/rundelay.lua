--- How long tasks wait for a CPU after a wakeup or a preemption.
-- A wait begins at the first of the two; a wakeup of a task that runs or waits already is ignored.
-- The wait is therefore the time in a run queue: RQ and R+ of task-state. A wait that began before
-- the run is not known. If a task leaves a CPU without a switch to it, its wait is unmatched.
-- --instead adds a table of the tasks that ran meanwhile on the CPU where the task ran after the
-- wait; `(idle)` is the time until an idle CPU reacted. After a migration, a part of the wait was
-- on another CPU.
-- With -p or a COMMAND all scheduler events of the machine are read, because a wakeup comes from
-- another task; the losses shown are those of all these events.
--   perilune rundelay -i 1000
--   perilune rundelay --than 10ms --filter 'nginx*' --perins
--   perilune rundelay --than 10ms --detail=samecpu
--   perilune rundelay --instead -p 1234
local instead, sched, relation = require "instead", require "sched", require "relation"
local band, ASLEEP = bit.band, sched.ASLEEP                -- includes the bits of sched.DEAD

local WAKEUP, PREEMPTED, AFTER = 1, 2, { "wakeup", "preempted" }

local m = monitor {
  summary = "how long tasks wait for a CPU after they were woken or preempted",
  group = "cpu", order = true, emits = { number { "delay_us" } },
  options = {
    text { "filter", value = "GLOBS", help = "only tasks with these names: nginx*,!java-debug" },
    duration { "than", unit = "ns", help = "print first and last event of each longer wait" },
    flag { "instead", help = "also show which tasks ran instead" }, "detail", "perins", "heatmap",
  },
}

--- Returns whether a switch or a wakeup concerns a task.
local function is_about(e, tid)
  if e._event.name == "sched:sched_switch" then return e.prev_pid == tid or e.next_pid == tid end
  return e.pid == tid
end

function m.init(opt)
  local delays = latency { perins "tid", "comm", { "after", function(n) return AFTER[n] end } }
  local heat = opt.heatmap and heat_map {}
  local waits = pending { "after", key = "tid", keep = opt.than }
  local print = opt.than and relation.printer(opt.detail, is_about)

  local during = opt.instead and instead.table() or nil ---@type function?
  local UNKNOWN, ANOTHER = -1, 0                           -- the idle task, or one not watched
  local running = per_cpu(UNKNOWN)                         -- the task that runs on each CPU

  local function woken(e)
    local tid = e.pid
    if running[e.target_cpu] ~= tid then waits:open_once(tid, e, WAKEUP) end
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
    if not wait then return end
    local delay = wait.delay
    delays:add(delay, tid, e.next_comm, wait.after)
    if heat then heat:add(e._time, delay) end
    if during then during(e.next_comm, e._cpu, wait.time, e._time) end
    if opt.than and delay > opt.than then
      print(wait, e, tid, { { "tid", tid }, { "comm", e.next_comm }, { "delay_us", delay / 1000 } })
    end
  end

  sched.watch(opt, "sched:sched_wakeup", "pid", "comm", woken)
  sched.watch(opt, "sched:sched_wakeup_new", "pid", "comm", woken)
  if opt.filter or per_thread() then
    sched.watch(opt, "sched:sched_switch", "prev_pid", "prev_comm", leaves)
    sched.watch(opt, "sched:sched_switch", "next_pid", "next_comm", comes)
  else
    evsel("sched:sched_switch", function(e) leaves(e) comes(e) end)
  end
end
return m
