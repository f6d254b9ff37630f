--- Waits for locks: of the kernel (`lock:contention_begin` to `contention_end`, Linux 5.19) and for
--- futexes (from the entry of the call until its return).
local contention = {}

local sched = require "sched"
local band = bit.band

-- LCB_F_* of include/trace/events/lock.h; the first match counts.
local KINDS = {
  { 0x20, "mutex" }, { 0x08, "rtmutex" }, { 0x10, "percpu rwsem" },
  { 0x03, "rwlock read" }, { 0x05, "rwlock write" }, { 0x01, "spinlock" },
  { 0x02, "rwsem read" }, { 0x04, "rwsem write" },
}
-- FUTEX_WAIT, FUTEX_LOCK_PI, FUTEX_WAIT_BITSET, FUTEX_WAIT_REQUEUE_PI, FUTEX_LOCK_PI2
local WAITS = { [0] = "futex", [6] = "futex pi", [9] = "futex bitset", [11] = "futex pi",
  [13] = "futex pi" }
local EAGAIN = -11                                         -- the word had changed: no wait

--- Returns the kind of a lock of the kernel.
local function kind_of(flags)
  for _, kind in ipairs(KINDS) do
    if band(flags, kind[1]) == kind[1] then return kind[2] end
  end
  return "semaphore"
end

-- Idle tasks all have the number 0: an interrupt may wait for a lock on each CPU.
local function key_of(e) return e._tid ~= 0 and e._tid or -1 - e._cpu end

--- Watches waits. Calls `ended(wait, e)` at the end of each: `wait.delay`, the address `wait.lock`,
--- `wait.kind`, `wait.stack`, and who woke the task last: `wait.waker`, `""` if it did not sleep,
--- with `wait.waker_stack`. `stacks` is the method of call chains, or false.
---@param opt perilune.Options
---@param stacks string|false
---@param ended fun(wait: perilune.State, e: any)
function contention.watch(opt, stacks, ended)
  local waits = pending { "lock", "kind", "stack", "waker", "waker_stack", key = "any",
    nested = true }
  local function begins(e, lock, kind)
    waits:open(key_of(e), e, lock, kind, stacks and e._stack or stack.none, "", stack.none)
  end
  local with = { stack = stacks }
  if opt.kernel or not opt.futex then
    evsel("lock:contention_begin", with, function(e)
      local wait, lock = waits:get(key_of(e)), e.lock_addr
      -- A mutex reports again that it begins to sleep after it has spun.
      if not wait or wait.lock ~= lock then begins(e, lock, kind_of(e.flags)) end
    end)
    evsel("lock:contention_end", function(e)
      local wait = waits:close(key_of(e), e, e.lock_addr --[[@as number]])
      if wait then ended(wait, e) end
    end)
  end
  if opt.futex or not opt.kernel then
    -- FUTEX_WAKE is the most frequent call, and does not wait.
    evsel("syscalls:sys_enter_futex", with, function(e)
      local kind = WAITS[band(e.op, 0x7f)]
      if kind then begins(e, e.uaddr, kind) end
    end):filter "op != 1 && op != 129"
    evsel("syscalls:sys_exit_futex", function(e)
      local outer = waits:get(key_of(e))
      local wait = outer and waits:close(key_of(e), e, outer.lock)
      if wait and e.ret ~= EAGAIN then ended(wait, e) end
    end)
  end
  sched.watch_wakers({}, stacks, function(e, waker)
    local wait = waits:get(e.pid)
    if not wait then return end
    wait.waker, wait.waker_stack = waker, stacks and e._stack or stack.none
  end)
end

return contention
