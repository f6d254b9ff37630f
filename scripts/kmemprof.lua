--- Memory that the kernel allocates: how much, how often, what of it was freed again, and the ten stacks that allocate most.
-- An event names the memory by its field `ptr` or by ptr=, its size by `bytes_alloc` or by size=; a free counts when the run has seen
-- the allocation, with the size of that. What has not been freed stands in kmemleak. Without --alloc and --free it watches the slab: kmalloc and the
-- caches. -p and a command choose whose allocations are told; frees are taken from all tasks, as the kernel frees much of it elsewhere.
--   perilune kmemprof -i 1000
--   perilune kmemprof --alloc kmem:kmalloc --free kmem:kfree -p 1234
--   perilune kmemprof --alloc kmem:mm_page_alloc//ptr=pfn+1/size=4096<<order/ --free kmem:mm_page_free//ptr=pfn+1/
local relation = require "relation"
local ALLOC = { "kmem:kmalloc", "kmem:kmem_cache_alloc", "kmem:kmalloc_node", "kmem:kmem_cache_alloc_node" }    -- the last two until 6.0
local FREE  = { "kmem:kfree", "kmem:kmem_cache_free" }

local m = monitor {
  summary = "kernel memory allocated and freed, and the stacks that allocate most",
  order = true,
  options = {
    events { "alloc", groups = 1, value = "EVENTS",
      attrs = { ptr = expr, size = expr }, help = "allocate: with a field ptr, or ptr= and size= [default those of the slab]" },
    events { "free", groups = 1, value = "EVENTS",
      attrs = { ptr = expr }, help = "free: with a field ptr, or ptr= [default those of the slab]" },
    choice { "weight", of = { "calls", "bytes" }, help = "what the flame graph adds up" },
    "flame-graph",
  },
}

function m.init(opt)
  if not opt.alloc ~= not opt.free then error("--alloc and --free belong together: what one names, the other frees", 0) end
  if opt.alloc then
    relation.kmemprof({ opt.alloc[1], opt.free[1] }, opt)
  else
    relation.kmemprof({ ALLOC, FREE }, opt, true)
  end
end
return m
