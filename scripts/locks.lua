--- Waits for locks of the kernel and for futexes: which lock, who waited, and who released it.
-- A lock is its address: in the kernel, or that of the futex word in the process. A mutex of glibc
-- is `futex`, its condition variables, semaphores and joins are `futex bitset`; other runtimes
-- differ. `released by` is the task that woke the waiting one: for a mutex, its holder. It is
-- empty if the wait was spent spinning, and `(interrupt)` after a timeout. A task that has waited
-- since before the run is not known. -g shows the stacks of both. Locks of the kernel need Linux
-- 5.19.
--   perilune locks -p 1234
--   perilune locks --kernel -g --rows 5 -i 1000
--   perilune locks --futex --flame-graph waits --weight time -- ./program
local contention = require "contention"

local m = monitor {
  summary = "waits for kernel locks and futexes, and who released them",
  group = "locks", order = true,
  options = {
    flag { "kernel", help = "only locks of the kernel" },
    flag { "futex", help = "only futexes" },
    integer { "rows", default = 20, help = "number of rows" },
    "weight", "call-graph", "flame-graph",
  },
}

function m.init(opt)
  local stacks = opt.call_graph
  ---@type table
  local keys = { "kind", { "lock", hex }, "comm", stacks and { "waits in", stack_text },
    "released by", stacks and { "released in", stack_text } }
  local graph = opt.flame_graph and kv { keys[3], keys[1], keys[4], keys[6], keys[5],
    sums = { "time" } }
  keys.count, keys.top, keys.percentiles = "waits", opt.rows, not stacks
  local times = not graph and latency(keys)
  contention.watch(opt, stacks, function(wait, e)
    local ns, at, from = wait.delay, wait.stack, wait.waker_stack
    if graph then graph:add(e._comm, wait.kind, at, from, wait.waker, ns)
    else times:add(ns, wait.kind, wait.lock, e._comm, at, wait.waker, from) end
  end)
end
return m
