--- Waits for locks of the kernel and for futexes: which lock, who waited, and who released it.
-- A lock is the variable that contains it (NAME+OFFSET, or FILE+ADDRESS without a symbol), else its
-- address: in the kernel, or that of the futex word in the process. A mutex of glibc is `futex`,
-- its condition variables, semaphores and joins are `futex bitset`; other runtimes differ.
-- `released by` is the task that woke the waiting one: for a mutex, its holder. It is empty if the
-- wait was spent spinning, and `(interrupt)` after a timeout. --holder adds who held a futex while
-- the task waited, and at the end the waits that have not ended: a deadlock. It is known for
-- mutexes of glibc, robust ones and those with priority inheritance, in waits of more than 5 to
-- 15 ms. A task that has waited since before the run is not known. -g shows the stacks of both.
-- Locks of the kernel need Linux 5.19.
--   perilune locks -p 1234
--   perilune locks --kernel -g --rows 5 -i 1000
--   perilune locks --futex --holder -p 1234
--   perilune locks --futex --flame-graph waits -- ./program
local contention = require "contention"

local m = monitor {
  summary = "waits for kernel locks and futexes, and who released them",
  group = "locks", order = true,
  options = {
    flag { "kernel", help = "only locks of the kernel" },
    flag { "futex", help = "only futexes" },
    flag { "holder", help = "also show who held each futex during the wait" },
    integer { "rows", default = 20, help = "number of rows" },
    "weight", "call-graph", "flame-graph",
  },
}

function m.init(opt)
  local stacks, text, held = opt.call_graph, nil, nil
  ---@type table
  local keys = { "kind", { "lock", function(number) return text(number) end }, "comm",
    stacks and { "waits in", stack_text }, opt.holder and "held by", "released by",
    stacks and { "released in", stack_text } }
  local graph = opt.flame_graph and kv { keys[3], keys[1], keys[4], keys[7], keys[6],
    sums = { "time(ns)" }, weight = "time" }
  keys.count, keys.top, keys.percentiles = "waits", opt.rows, not stacks
  local times = not graph and latency(keys)
  text, held = contention.watch(opt, stacks, function(wait, e, lock, holder)
    local ns, at, from = wait.delay, wait.stack, wait.waker_stack
    if graph then graph:add(e._comm, wait.kind, at, from, wait.waker, ns)
    else times:add(ns, wait.kind, lock, e._comm, at, holder, wait.waker, from) end
  end)
  function m.deinit() return times or graph, held() end
end
return m
