--- Tasks that wait in the run queue of each CPU, counted exactly from scheduler events.
--- A task waits from its wakeup or preemption until it runs; a migration moves it. A task that has
--- waited since before the run, or since events were lost, is not counted until it has run.
local run_queue = {}

local sched = require "sched"
local band, ASLEEP = bit.band, sched.ASLEEP                -- includes the bits of sched.DEAD

--- Watches the run queues of all CPUs. Calls `changes(cpu, time, length)` before a length changes;
--- `length` is the one until then. Returns the lengths by CPU, and a function for `m.interval` that
--- counts the waiting tasks again: after lost events, tasks are dropped without a change.
---@param changes fun(cpu: integer, time: number, length: number)
---@return table<integer, number>, fun()
function run_queue.watch(changes)
  local waiting, length, running = pending { "cpu" }, per_cpu(0), per_cpu(-1)

  local function add(cpu, time, by)
    local before = length[cpu]
    changes(cpu, time, before)
    length[cpu] = math.max(before + by, 0)
  end
  -- The task has run, even if the switch to it is missing.
  local function runs(e, tid)
    local wait = tid ~= 0 and waiting:close(tid, e)
    if wait then add(wait.cpu, e._time, -1) end
  end
  local function waits(e, tid, cpu)
    -- A wait that begins during a loss of events is not stored: its end may be lost, too.
    if waiting:open(tid, e, cpu) then add(cpu, e._time, 1) end
  end
  local function woken(e)
    local tid, cpu = e.pid, e.target_cpu
    if running[cpu] ~= tid and not waiting:get(tid) then waits(e, tid, cpu) end
  end
  local every = { all_tasks = true }
  evsel("sched:sched_wakeup", every, woken)
  evsel("sched:sched_wakeup_new", every, woken)
  evsel("sched:sched_migrate_task", every, function(e)
    local wait, to = waiting:get(e.pid), e.dest_cpu
    if not wait then return end
    add(wait.cpu, e._time, -1)
    wait.cpu = to
    add(to, e._time, 1)
  end)
  evsel("sched:sched_switch", every, function(e)
    local cpu, tid, next = e._cpu, e.prev_pid, e.next_pid
    runs(e, tid)
    if tid ~= 0 and band(e.prev_state, ASLEEP) == 0 then waits(e, tid, cpu) end
    running[cpu] = next
    runs(e, next)
  end)
  -- Older recordings do not contain it.
  evsel("sched:sched_process_exit", { all_tasks = true, optional = true },
    function(e) runs(e, e.pid) end)

  return length, function()
    for _, cpu in ipairs(cpus()) do length[cpu] = 0 end
    for _, wait in waiting:each() do length[wait.cpu] = length[wait.cpu] + 1 end
  end
end

return run_queue
