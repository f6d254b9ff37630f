--- How long tasks wait in direct reclaim: an allocation finds too little free memory, so the task
-- itself has to free pages first. `memory`: the machine is short of memory, `cgroup`: a control
-- group has reached its limit. `pages` were freed by it.
-- The time includes waits for writeback and for the CPU. kswapd, which reclaims in the background
-- and delays no task, is shown by --kswapd: how long it was awake on each node, from its first wake
-- event, which it repeats while it works, to its sleep.
-- A reclaim that fails again and again ends in `oom`.
--   perilune reclaim -i 1000
--   perilune reclaim --than 10ms -g

local delays, memory = require "delays", require "memory"

local m = monitor {
  summary = "direct reclaim: how long tasks wait for memory to be freed",
  group = "memory", order = true, emits = { number { "delay_us" } },
  idle = "the machine and its control groups have free memory",
  options = {
    duration { "than", unit = "ns", help = "print begin and end of each longer reclaim" },
    flag { "kswapd", help = "also show how long kswapd was awake, by node" },
    "call-graph", "heatmap",
  },
}

function m.init(opt)
  local add = delays.table(opt, { "pid", "comm", "kind", title = "direct reclaim" })
  local freed = kv { "pid", "comm", "kind", sums = { "pages" }, title = "freed" }
  memory.reclaims({ stack = opt.call_graph, keep = opt.than }, function(start, e, kind, pages)
    add(start, e, start.delay, e._pid, e._comm, kind)
    freed:add(e._pid, e._comm, kind, pages)
  end)
  if not opt.kswapd then return end
  local awake = latency { "node", title = "kswapd awake" }
  local since = pending { key = "any" }
  evsel("vmscan:mm_vmscan_kswapd_wake", { all_tasks = true }, function(e)
    since:open_once(e.nid, e)                              -- each round of work has a wake event
  end)
  evsel("vmscan:mm_vmscan_kswapd_sleep", { all_tasks = true }, function(e)
    local woke = since:close(e.nid, e)
    if woke then awake:add(woke.delay, e.nid) end
  end)
end
return m
