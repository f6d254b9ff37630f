--- Memory that programs allocate by malloc and its kin, and what of it they did not free: leaks, or
-- memory in use, at the end of the run. With -g by stack.
-- `live_bytes` and `live` were allocated in the run and not freed since; `bytes` and `calls` are
-- all that were allocated. Sizes are those that the program asked for. Memory that a process has
-- not freed when it ends stays in the table. posix_memalign is not seen, nor are allocators of a
-- program's own; --library is the file with the allocator: libjemalloc.so.2, or a static program.
-- A probe costs several microseconds, and each allocation and its free have three: a program that
-- allocates much gets many times slower. -p is filtered in user space: a probe slows every process
-- that uses the library. Events that are lost make live memory wrong: see the coverage.
--   perilune malloc -g -- ls -lR /usr/share/doc
--   perilune malloc -p 1234 -g -i 10000
--   perilune malloc --library /proc/1234/root/lib/libc.so.6 -p 1234
local heap = require "heap"

local m = monitor {
  summary = "memory that programs allocate and do not free, by process or stack",
  group = "memory", order = true,
  options = {
    text { "library", value = "FILE", default = "libc.so.6",
      help = "library or program with the allocator: a path, or the name of a library" },
    choice { "weight", of = { "live_bytes", "bytes", "calls" },
      help = "weight of the flame graph" },
    "call-graph", "flame-graph",
  },
}

function m.init(opt)
  local stack = opt.call_graph and { "stack", stack_text }
  local rows = kv { "pid", "comm", stack, keep = true,
    sums = { { "live_bytes", first = true }, "live", "bytes", "calls" } }
  heap.watch(opt, function(pid, comm, trace, bytes, live, calls)
    rows:add(pid, comm, trace, live * bytes, live, calls * bytes, calls)
  end)
end
return m
