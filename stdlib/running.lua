--- Stays of tasks on CPUs: a stay lasts from the switch to a task until the switch away from it.
local sched = require "sched"

local running = {}

local LOST, UNKNOWN, SWITCHED = -3, -1, -2

--- Watches who runs on each CPU; with -p only the watched tasks. Calls `ended(e, since)` for each
--- stay that ends: `e` is the switch away from the task, `since` the time of the switch to it, or 0
--- if it ran since before the run. A stay that began while events were lost is omitted; one whose
--- beginning the kernel wrote no record of is unmatched.
--- Returns a function that calls `visit(cpu, tid, since, prio)` for each task that runs now, the
--- idle task 0 included. A task that runs throughout has no switch: samples of a clock show it, and
--- its priority is -1 here. On a CPU without any event nothing runs.
---@param ended fun(e: perilune.Record, since: number)
---@return fun(visit: fun(cpu: integer, tid: integer, since: number, prio: integer))
function running.watch(ended)
  local stays = pending { "tid", "prio", key = "cpu" }
  local first = per_cpu(LOST)                              -- who has run since before the run
  local watched = cpus()
  for _, cpu in ipairs(watched) do first[cpu] = UNKNOWN end

  local function leaves(e)
    local cpu, tid = e._cpu, e.prev_pid
    local stay, before = stays:get(cpu), first[cpu]
    first[cpu] = SWITCHED
    if stay and stay.tid == tid then
      stays:close(cpu, e)
      ended(e, stay.time)
    elseif stay then
      stays:miss(cpu)
    elseif before == UNKNOWN or before == tid then
      ended(e, 0)
    elseif before ~= LOST then
      stays:open(cpu, e, tid, e.prev_prio)
      stays:miss(cpu)
    end
  end
  local function comes(e)
    local cpu = e._cpu
    first[cpu] = SWITCHED
    stays:open(cpu, e, e.next_pid, e.next_prio)
  end
  sched.watch_switches({}, leaves, comes)
  local clock = { freq = 10, exclude = { idle = true }, optional = true }
  evsel("cpu-clock", clock, function(e)
    local cpu = e._cpu
    if first[cpu] == UNKNOWN then first[cpu] = e._tid end
  end)
  return function(visit)
    for _, cpu in ipairs(watched) do
      local tid = first[cpu]
      if tid >= 0 then visit(cpu, tid, 0, -1) end
    end
    for cpu, stay in stays:each() do
      visit(cpu --[[@as integer]], stay.tid, stay.time, stay.prio)
    end
  end
end

return running
