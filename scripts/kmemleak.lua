--- Memory that was allocated and not freed since, by stack: likely leaks. Longer runs find more.
-- The memory is the event's field `ptr`, or the expression of ptr=. The size is size=, else
-- `bytes_alloc` if the event has it. --than hides younger allocations. The table has a row for each
-- stack (-g); --detail prints each allocation as well, at the end.
-- The free of an allocation that is older than a loss of events may be among the lost events: such
-- allocations are listed in a separate table, as possible. A second allocation at an address means
-- that the free was not seen: it counts as unmatched.
-- -p, -C and a COMMAND select allocations. Frees are taken from all tasks and CPUs, because the
-- kernel frees much memory in other tasks; their overhead therefore affects the whole machine.
--   perilune kmemleak --alloc kmem:kmalloc --free kmem:kfree -g -i 10000 --than 5s
--   perilune kmemleak --alloc kprobes:alloc_percpu --free kprobes:free_percpu -m 8 -g
local allocations = require "allocations"

local m = monitor {
  summary = "memory allocated and not freed since, by stack",
  group = "memory", order = true,
  options = {
    event { "alloc", required = true, value = "EVENT", attrs = { ptr = expr, size = expr },
      help = "event that allocates; has a field ptr, or ptr= and size=" },
    event { "free", required = true, value = "EVENT", attrs = { ptr = expr },
      help = "event that frees; has a field ptr, or ptr=" },
    duration { "than", unit = "s", help = "only allocations older than this" },
    flag { "detail", help = "also print each allocation that was not freed, as its event" },
    choice { "weight", of = { "objects", "bytes" }, help = "weight of the flame graph" },
    "call-graph", "flame-graph",
  },
}

function m.init(opt)
  local sums = { { "bytes", first = true }, "objects" }
  local stack = opt.call_graph and { "stack", stack_text }
  local live = allocations.watch(opt)
  local leaks = kv { "comm", stack, sums = sums, keep = true }
  -- A flame graph contains the certain leaks only.
  local possible = kv { "leak", "comm", not opt.flame_graph and stack, sums = sums, keep = true }

  --- Adds up the live allocations by stack, and calls `visit` for each.
  local function report(visit)
    leaks:clear()
    possible:clear()
    for _, block in live:each() do
      local old = now() - block.time >= (opt.than or 0)
      if old and visit then visit(block.event, block.unsure and { leak = "possible" } or nil) end
      if old and block.unsure then possible:add("possible", block.comm, block.stack, block.bytes, 1)
      elseif old then leaks:add(block.comm, block.stack, block.bytes, 1) end
    end
    return leaks, possible
  end
  function m.interval() return report() end
  function m.deinit() return report(opt.detail and emit) end
end
return m
