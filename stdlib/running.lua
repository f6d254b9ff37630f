--- Stays of tasks on CPUs: a stay lasts from the switch to a task until the switch away from it.
local sched = require "sched"

local running = {}

local UNKNOWN, ANOTHER, NEVER, JOINED = -1, -2, -math.huge, -1
-- Tasks that are remembered while it is not known who runs on each CPU.
local TASKS = 65536
-- The clock has sampled a task by then that has run on its CPU since before the run, in ns.
local SAMPLED = 0.3e9
-- Stays without a beginning from which on the run notes them, and their least share.
local FEW, SHARE = 10, 0.01

--- Returns the handlers of switches away from tasks and to them, and the states of all CPUs, which
--- they keep. `ended(e, since)` is that of `running.watch`. `has_clock`: samples of a clock show
--- who runs. The last result handles one of a CPU where that is not known.
local function follow(ended, has_clock)
  local task, since, prio = per_cpu(UNKNOWN), per_cpu(NEVER), per_cpu(-1)
  -- With --cgroup, a task may have joined the cgroup while it ran.
  local began = some_tasks() and not per_thread() and JOINED or 0
  local unknown, seen, tasks = #cpus(), {}, 0
  for _, cpu in ipairs(cpus()) do since[cpu] = began end

  -- A task that has come to a CPU during the run has not run on another one since before it.
  local function known(on, tid)
    if on == UNKNOWN then unknown = unknown - 1 end
    if unknown > 0 and tid > 0 and not seen[tid] and tasks < TASKS then
      seen[tid], tasks = true, tasks + 1
    end
  end
  local stays, missing, noted = 0, 0, false
  local function misses()
    unmatched()
    missing = missing + 1
    if missing >= FEW and missing > SHARE * stays and not noted then
      noted = true
      note("stays on a CPU are missing: there is no record of the switch to their task " ..
        "(coverage: unmatched)")
    end
  end
  local function leaves(e)
    local cpu, tid = e._cpu, e.prev_pid
    local on, from = task[cpu], since[cpu]
    task[cpu], since[cpu] = ANOTHER, NEVER
    stays = stays + 1
    -- The idle task has no samples.
    local has_come = tid ~= 0 and (seen[tid] or has_clock and e._time > SAMPLED)
    local is_first = on == UNKNOWN and not (from == 0 and has_come)
    if unknown > 0 then known(on, tid) end
    if on == tid or is_first then
      if from >= 0 then ended(e, from) end
    else misses() end
  end
  local function comes(e)
    local cpu, tid = e._cpu, e.next_pid
    if unknown > 0 then known(task[cpu], tid) end
    task[cpu], since[cpu], prio[cpu] = tid, e._time, e.next_prio
  end
  local function samples(e)
    local cpu, tid = e._cpu, e._tid
    local from, has_come = since[cpu], seen[tid] or e._time > SAMPLED
    known(UNKNOWN, tid)
    if from == JOINED then task[cpu], since[cpu] = tid, e._time
    elseif has_come then task[cpu], since[cpu] = ANOTHER, NEVER
    else task[cpu] = tid end
  end
  return leaves, comes, task, since, prio, samples
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
  local options = { freq = 10, exclude = { idle = true }, optional = true }
  local clock = evsel("cpu-clock", options) --[[@as perilune.Evsel?]]
  local leaves, comes, task, since, prio, samples = follow(ended, clock ~= nil)
  local watched = cpus()
  sched.watch_switches({}, leaves, comes)
  if clock then
    clock:each(function(e)
      if task[e._cpu] == UNKNOWN and since[e._cpu] ~= NEVER then samples(e) end
    end)
  end
  return function(visit)
    for _, cpu in ipairs(watched) do
      if since[cpu] >= 0 and task[cpu] >= 0 then visit(cpu, task[cpu], since[cpu], prio[cpu]) end
    end
  end
end

--- Adds the stays of tasks to `times`, a latency with the columns of the thread and its name, and
--- to the histogram `spread`. A stay that began before the run is not added; one without an event
--- of the switch to the task counts as unmatched.
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
    key = "_cpu", strict = true, histogram = { spread },
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
