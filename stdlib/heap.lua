--- Allocations of programs: calls of malloc and its kin.
local heap = {}

-- The functions of C and POSIX that return the memory, with the size that they are asked for.
local SIZES = {
  malloc = "arg1", calloc = "arg1 * arg2", realloc = "arg2", reallocarray = "arg2 * arg3",
  aligned_alloc = "arg2", memalign = "arg2", valloc = "arg1", pvalloc = "arg1",
}
local REQUIRED, REALLOC = "malloc", { realloc = true, reallocarray = true }

-- An address below 2^48 of a block that is aligned to 8 bytes has 45 bits. Of the 52 bits of a
-- double's fraction, 7 are left for the process; 9 more are in its exponent.
local ALIGNMENT, PLACES, FRACTION = 8, 2 ^ 45, 2 ^ 52
local IN_FRACTION, PROCESSES = 128, 65536

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

--- Opens the events of the allocator in the file `opt.library`. Calls `add(pid, comm, stack, bytes,
--- live, calls)` for each change of the live memory: `live` is 1 if a block is allocated, -1 if it
--- is freed; `calls` is 1 if a call has allocated it. `comm` and, with -g, `stack` are those of the
--- call that allocated the block. A call inside another one, such as that of malloc in calloc, is
--- part of that one.
--- A block is freed when realloc is called, because another thread may have its address before
--- realloc returns; it is allocated again if realloc fails.
---@param add fun(pid: number, comm: string, stack: any, bytes: number, live: number, calls: number)
function heap.watch(opt, add)
  local open = pending { "bytes", "stack", key = "tid" }
  local moving = pending { "ptr", "bytes", "comm", "stack", key = "tid" }
  local live, key = pending { "bytes", "comm", "stack", key = "any" }, heap.keys()
  local file = opt.library:find "[:,|%s]" and ('"%s"'):format(opt.library) or opt.library

  local function frees(e, ptr)
    local pid = e._pid
    local block = ptr ~= 0 and live:close(key(pid, ptr), e)
    if block then add(pid, block.comm, block.stack, block.bytes, -1, 0) end
    return block
  end
  local function allocates(e, ptr, bytes, comm, stack, calls)
    local pid = e._pid
    live:open(key(pid, ptr), e, bytes, comm, stack)
    add(pid, comm, stack, bytes, 1, calls)
  end
  local function returns(e)
    local tid, ptr = e._tid, e.retval
    local call, old = open:close(tid, e), moving:close(tid, e)
    if not call then return end
    if ptr ~= 0 then
      allocates(e, ptr, call.bytes, e._comm, call.stack, 1)
    elseif old and call.bytes ~= 0 then                    -- realloc(old, 0) frees and returns NULL
      allocates(e, old.ptr, old.bytes, old.comm, old.stack, 0)
    end
  end
  for name, size in pairs(SIZES) do
    local optional = name ~= REQUIRED or nil
    local how = { stack = opt.call_graph, optional = optional }
    local call = evsel(("uprobe:%s:%s"):format(file, name), how) ---@type perilune.Evsel?
    if call then
      local bytes = expr_of(size, call, "number")
      local function begins(e) return open:open_once(e._tid, e, bytes(e), e._stack) end
      local function moves(e)
        local block = begins(e) and frees(e, e.arg1)
        if block then moving:open(e._tid, e, e.arg1, block.bytes, block.comm, block.stack) end
      end
      call:each(REALLOC[name] and moves or begins)
      evsel(("uretprobe:%s:%s"):format(file, name), returns)
    end
  end
  local function freed(e) frees(e, e.arg1) end
  evsel(("uprobe:%s:free"):format(file), freed)
end

return heap
