--- Tasks that ran on a CPU while another one waited for it.
local instead = {}

local STAYS = 1024                                         -- the last stays of a CPU that are kept
local NEVER = -math.huge

--- Declares a table of the tasks that ran instead, and keeps who ran on each CPU last. Returns a
--- function `during(waiter, cpu, from, to)` that adds each stay of a task on the CPU in that time.
--- `(idle)` is the idle task, which runs until the CPU reacts to a wakeup, and `(earlier)` the time
--- before the last 1024 stays of the CPU.
---@return fun(waiter: string, cpu: integer, from: number, to: number)
function instead.table()
  local stays = latency { "comm", "ran instead", count = "stays", top = 20, title = "ran instead",
    percentiles = false }
  local function ran(waiter, comm, ns) stays:add(ns, waiter, comm) end
  local rings, count = {}, per_cpu(0) ---@type table<integer, table?>, table<integer, number>
  local since, current = per_cpu(NEVER), per_cpu("" --[[@as any]]) ---@type table, table

  local function ring_of(cpu)
    local ring = { names = {}, starts = {}, ends = {} }
    rings[cpu] = ring
    return ring
  end
  evsel("sched:sched_switch", { all_tasks = true }, function(e)
    local cpu, time = e._cpu, e._time
    if since[cpu] >= 0 then
      local ring, i = rings[cpu] or ring_of(cpu), count[cpu] % STAYS + 1
      ring.names[i] = e.prev_pid == 0 and "(idle)" or e.prev_comm
      ring.starts[i], ring.ends[i] = since[cpu], time
      count[cpu] = count[cpu] + 1
    end
    since[cpu], current[cpu] = time, e.next_pid == 0 and "(idle)" or e.next_comm
  end)

  return function(waiter, cpu, from, to)
    -- The switch at `to` may not have been handled here yet.
    if since[cpu] < to and since[cpu] >= 0 then
      ran(waiter, current[cpu], to - math.max(from, since[cpu]))
    end
    local ring, reached = rings[cpu] or ring_of(cpu), math.min(since[cpu], to)
    for n = count[cpu], math.max(count[cpu] - STAYS + 1, 1), -1 do
      local i = (n - 1) % STAYS + 1
      if ring.ends[i] <= from then return end
      ran(waiter, ring.names[i], math.min(ring.ends[i], to) - math.max(ring.starts[i], from))
      reached = ring.starts[i]
    end
    if reached > from then ran(waiter, "(earlier)", reached - from) end
  end
end

return instead
