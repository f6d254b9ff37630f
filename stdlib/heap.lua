--- Allocations of programs: calls of malloc and its kin.
local heap = {}

-- The functions of C and POSIX that return the memory, with the size that they are asked for.
local SIZES = {
  malloc = "arg1", calloc = "arg1 * arg2", realloc = "arg2", reallocarray = "arg2 * arg3",
  aligned_alloc = "arg2", memalign = "arg2", valloc = "arg1", pvalloc = "arg1",
}
local REQUIRED, REALLOC = "malloc", { realloc = true, reallocarray = true }

-- Memory is aligned to 16 bytes, so an address below 2^47 has 43 bits. Of the 52 bits of a double's
-- fraction, 9 are left for the process; 7 more are in its exponent.
local ALIGNMENT, PLACES, FRACTION = 16, 2 ^ 43, 2 ^ 52
local IN_FRACTION, PROCESSES = 512, 65536

--- Returns a function `key(pid, ptr)` that returns a unique number for memory of a process. After
--- 65536 processes it begins again: a process then has the keys of the first one.
---@return fun(pid: integer, ptr: number): number
function heap.keys()
  local bases, scales, count = {}, {}, 0
  local function add(pid)
    if count == PROCESSES then bases, scales, count = {}, {}, 0 end
    bases[pid] = FRACTION + count % IN_FRACTION * PLACES
    scales[pid] = 2 ^ math.floor(count / IN_FRACTION)
    count = count + 1
  end
  return function(pid, ptr)
    if not bases[pid] then add(pid) end
    return (bases[pid] + ptr / ALIGNMENT) * scales[pid]
  end
end

--- Opens the events of the allocator in the file `opt.library`. Calls `allocated(e, ptr, call)`
--- when a call has returned memory, with `call.bytes` and, with -g, `call.stack` of its caller; and
--- `freed(e, ptr)` when memory is freed. A call inside another one, such as that of malloc in
--- calloc, is part of that one.
---@param freed fun(e: perilune.Record, ptr: number)
---@param allocated fun(e: perilune.Record, ptr: number, call: perilune.State)
function heap.watch(opt, freed, allocated)
  local open = pending { "bytes", "stack", "old", key = "tid" }
  local file = opt.library:find "[:,|%s]" and ('"%s"'):format(opt.library) or opt.library

  local function returns(e)
    local call, ptr = open:close(e._tid, e), e.retval
    if not call or ptr == 0 then return end
    if call.old ~= 0 then freed(e, call.old) end
    allocated(e, ptr, call)
  end
  for name, size in pairs(SIZES) do
    local optional = name ~= REQUIRED or nil
    local how = { stack = opt.call_graph, optional = optional }
    local call = evsel(("uprobe:%s:%s"):format(file, name), how) ---@type perilune.Evsel?
    if call then
      local bytes, old = expr_of(size, call, "number"), REALLOC[name] and "arg1" or "0"
      local before = expr_of(old, call, "number")
      call:each(function(e) open:open_once(e._tid, e, bytes(e), e._stack, before(e)) end)
      evsel(("uretprobe:%s:%s"):format(file, name), returns)
    end
  end
  local function frees(e)
    if e.arg1 ~= 0 then freed(e, e.arg1) end
  end
  evsel(("uprobe:%s:free"):format(file), frees)
end

return heap
