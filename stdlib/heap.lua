--- Allocations of programs: calls of malloc and its kin.
local heap = {}

-- The functions of C and POSIX that return the memory, with the size that they are asked for.
local SIZES = {
  malloc = "arg1", calloc = "arg1 * arg2", realloc = "arg2", reallocarray = "arg2 * arg3",
  aligned_alloc = "arg2", memalign = "arg2", valloc = "arg1", pvalloc = "arg1",
}
local REQUIRED, REALLOC = "malloc", { realloc = true, reallocarray = true }

-- Alignment of memory, and the number of addresses that are then distinguished: 2^47 bytes. Six
-- bits less than those of a double are left for the process.
local ALIGNMENT, PLACES, PROCESSES = 16, 2 ^ 43, 1024

--- Returns a key for memory of a process. Processes whose numbers differ by a multiple of 1024
--- share their keys.
---@param pid integer
---@param ptr number
---@return number
function heap.key(pid, ptr) return ptr / ALIGNMENT + pid % PROCESSES * PLACES end

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
