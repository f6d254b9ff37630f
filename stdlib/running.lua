--- Stays of tasks on CPUs: a stay lasts from the switch to a task until the switch away from it.
local sched = require "sched"

local running = {}

local UNKNOWN, ANOTHER, NEVER, JOINED = -1, -2, -math.huge, -1

--- Returns the handlers of switches away from tasks and to them, and the states of all CPUs, which
--- they keep. `ended(e, since)` is that of `running.watch`.
local function follow(ended)
  local task, since, prio = per_cpu(UNKNOWN), per_cpu(NEVER), per_cpu(-1)
  -- With --cgroup, a task may have joined the cgroup while it ran.
  local began = some_tasks() and not per_thread() and JOINED or 0
  for _, cpu in ipairs(cpus()) do since[cpu] = began end

  local function leaves(e)
    local cpu = e._cpu
    local on, from = task[cpu], since[cpu]
    task[cpu], since[cpu] = ANOTHER, NEVER
    if on == e.prev_pid or on == UNKNOWN then
      if from >= 0 then ended(e, from) end
    else unmatched() end
  end
  local function comes(e)
    local cpu = e._cpu
    task[cpu], since[cpu], prio[cpu] = e.next_pid, e._time, e.next_prio
  end
  return leaves, comes, task, since, prio
end

--- Watches who runs on each CPU; with -p only the watched tasks. Calls `ended(e, since)` for each
--- stay that ends: `e` is the switch away from the task, `since` the time of the switch to it, or 0
--- if it ran since before the run. A stay that began while events were lost is omitted; one without
--- a record of the switch to the task counts as unmatched. With --cgroup, the first stay on a CPU
--- begins with a sample of the clock, and is omitted if there is none.
--- Returns a function that calls `visit(cpu, tid, since, prio)` for each task that runs now, the
--- idle task 0 included. A task that runs throughout has no switch: samples of a clock show it, and
--- its priority is -1 here. On a CPU without any event nothing runs.
---@param ended fun(e: perilune.Record, since: number)
---@return fun(visit: fun(cpu: integer, tid: integer, since: number, prio: integer))
function running.watch(ended)
  local leaves, comes, task, since, prio = follow(ended)
  local watched = cpus()
  sched.watch_switches({}, leaves, comes)
  local clock = { freq = 10, exclude = { idle = true }, optional = true }
  evsel("cpu-clock", clock, function(e)
    local cpu = e._cpu
    if task[cpu] ~= UNKNOWN or since[cpu] == NEVER then return end
    task[cpu] = e._tid
    if since[cpu] == JOINED then since[cpu] = e._time end
  end)
  return function(visit)
    for _, cpu in ipairs(watched) do
      if since[cpu] >= 0 and task[cpu] >= 0 then visit(cpu, task[cpu], since[cpu], prio[cpu]) end
    end
  end
end

--- Adds the stays of tasks to `times`, a latency with the columns of the thread and its name, and
--- to the histogram `spread`. A stay that began before the run is not added.
---@param times perilune.Latency
---@param spread perilune.Hist
function running.measure(times, spread)
  local leaves, comes = sched.switch_sides {}
  local function ended(e, since)
    local tid, time = e.prev_pid, e._time - since
    if tid == 0 or since == 0 then return end
    spread:add(time)
    times:add(time, tid, e.prev_comm)
  end
  times:between({ comes, where = "next_pid != 0", same = "next_pid" },
    { leaves, where = "prev_pid != 0", same = "prev_pid", rows = { "prev_pid", "prev_comm" } }, {
    key = "_cpu", histogram = { spread },
    records = function()
      local on_leaving, on_coming = follow(ended)
      return { { leaves, on_leaving }, { comes, on_coming } }
    end,
  })
end

--- Watches the CPU time that watched tasks use; the run must be ordered. `adding(ev)` is called
--- with the event and returns a function `add(e, ns)`, which is called for each part of the time:
--- the task of `e` used it.
---
--- The event is also raised by other tasks: one that wakes a task on another CPU accounts the time
--- of the task that runs there, `e.pid`. That time is added at the next event of that task itself,
--- which follows at the latest when it leaves its CPU.
---@param adding fun(ev: perilune.Evsel): (fun(e: perilune.Sample, ns: number))
function running.used(adding)
  local ev = evsel("sched:sched_stat_runtime", { task = "pid" })
  local add, owed = adding(ev), pending { "ns", key = "any" } -- beyond the record of the task's end
  -- The number of the raising task in the same PID namespace as `pid`.
  local raises = expr_of("common_pid", ev, "number")
  ev:each(function(e)
    local tid, ns = e.pid, e.runtime
    if raises(e) == tid then
      local more = owed:close(tid, e)
      add(e, more and ns + more.ns or ns)
      return
    end
    local before = owed:get(tid)
    if before then before.ns = before.ns + ns else owed:open(tid, e, ns) end
  end)
end

return running
