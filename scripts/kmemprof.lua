--- Kernel memory allocated and freed: bytes and calls, and the ten stacks that allocate most.
-- The memory is the event's field `ptr`, or ptr=; the size is `bytes_alloc`, or size=. A free
-- counts if the run has seen the allocation, with the size of that. kmemleak shows memory that has
-- not been freed. Without --alloc and --free the slab is watched: kmalloc and the caches.
-- -p and a COMMAND select allocations. Frees are taken from all tasks, because the kernel frees
-- much memory in other tasks. --where kernel sums in the kernel, without a record: events that hit
-- another BPF program are then missed and counted as undelivered, and at most 262,144 allocations
-- wait for their free.
--   perilune kmemprof -i 1000
--   perilune kmemprof --where kernel --kernel-callchain -i 1000
--   perilune kmemprof --alloc kmem:kmalloc --free kmem:kfree -p 1234
--   perilune kmemprof --alloc kmem:mm_page_alloc//ptr=pfn+1/size=4096<<order/ \
--     --free kmem:mm_page_free//ptr=pfn+1/
local relation = require "relation"
local ALLOC = {
  "kmem:kmalloc", "kmem:kmem_cache_alloc",
  "kmem:kmalloc_node", "kmem:kmem_cache_alloc_node",       -- until Linux 6.0
}
local FREE = { "kmem:kfree", "kmem:kmem_cache_free" }

local m = monitor {
  summary = "kernel memory allocated and freed, and the stacks that allocate most",
  group = "memory", order = true,
  options = {
    events { "alloc", groups = 1, value = "EVENTS", attrs = { ptr = expr, size = expr },
      help = "events that allocate; with a field ptr, or ptr= and size= [default slab]" },
    events { "free", groups = 1, value = "EVENTS", attrs = { ptr = expr },
      help = "events that free; with a field ptr, or ptr= [default slab]" },
    choice { "weight", of = { "calls", "bytes" }, help = "weight of the flame graph" },
    "flame-graph",
  },
}

function m.init(opt)
  if not opt.alloc ~= not opt.free then error("--alloc, --free: use both", 0) end
  if opt.alloc then
    relation.kmemprof({ opt.alloc[1], opt.free[1] }, opt)
  else
    relation.kmemprof({ ALLOC, FREE }, opt, true)
  end
end
return m
