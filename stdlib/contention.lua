--- Waits for locks: of the kernel (`lock:contention_begin` to `contention_end`, Linux 5.19) and for
--- futexes (from the entry of the call until its return).
local contention = {}

local lock_names, sched, still_open = require "lock_names", require "sched", require "still_open"
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

-- A timer reads the holder of a wait that has lasted for 5 ms, and if it is known, again until the
-- wait ends: reading takes microseconds.
local READ_EVERY, READ_AFTER, UNREAD = "10ms", 5e6, -1
local NAMES = 2 ^ 17                                       -- a thread and a name as one number

-- The kind of a lock of the kernel, by its flags.
local ALL_FLAGS, kinds = 0x3f, {}
for flags = 0, ALL_FLAGS do
  kinds[flags] = "semaphore"
  for i = #KINDS, 1, -1 do
    if band(flags, KINDS[i][1]) == KINDS[i][1] then kinds[flags] = KINDS[i][2] end
  end
end

-- Idle tasks all have the number 0: an interrupt may wait for a lock on each CPU.
local function key_of(e) return e._tid ~= 0 and e._tid or -1 - e._cpu end

--- Reads who holds the futex of a wait: first as `wait.holder`, at the time `wait.read`, and last,
--- with the number of the lock's name, as `wait.latest`. The thread is 0 if it is not known.
local function read_holder(names, tid, wait)
  local holder, time = futex_holder(tid, wait.lock, wait.kind == "futex pi")
  if wait.read == UNREAD then wait.holder, wait.read = holder or 0, time or math.huge end
  -- At the end of the run the process may be gone.
  if holder then wait.latest = holder * NAMES + names:number(tid, wait.lock) end
end

--- Returns the name of the thread that held the lock during a wait that ended at `time`; `""` if it
--- is not known.
local function held_by(wait, time)
  return wait.holder > 0 and wait.read < time and comm(wait.holder) or ""
end

--- Watches waits. Calls `ended(wait, e, lock, holder)` at the end of each: `wait.delay`,
--- `wait.kind`, `wait.stack`, and who woke the task last: `wait.waker`, `""` if it did not sleep,
--- with `wait.waker_stack`. `lock` is the number of the lock's name, `holder` the name of its
--- holder with `opt.holder`, else `""`. `stacks` is the method of call chains, or false.
--- Returns a function that draws a lock's number; and a function that returns, with `opt.holder`, a
--- report of the waits that have not ended and whose holder is known.
---@param opt perilune.Options
---@param stacks string|false
---@param ended fun(wait: perilune.State, e: any, lock: integer, holder: string)
---@return fun(number: integer): string
---@return fun(): perilune.Report?
function contention.watch(opt, stacks, ended)
  local waits = pending { "lock", "kind", "stack", "waker", "waker_stack", "holder", "read",
    "latest", key = "any", nested = true }
  local names = lock_names.watch()
  local function begins(e, lock, kind)
    local at = stacks and e._stack or stack.none
    waits:open(key_of(e), e, lock, kind, at, "", stack.none, 0, UNREAD, 0)
  end
  local with = { stack = stacks }
  if opt.kernel or not opt.futex then
    evsel("lock:contention_begin", with, function(e)
      local wait, lock = waits:get(key_of(e)), e.lock_addr
      -- A mutex reports again that it begins to sleep after it has spun.
      if not wait or wait.lock ~= lock then begins(e, lock, kinds[band(e.flags, ALL_FLAGS)]) end
    end)
    evsel("lock:contention_end", function(e)
      local wait = waits:close(key_of(e), e, e.lock_addr --[[@as number]])
      if wait then ended(wait, e, names:number(0, wait.lock), "") end
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
      if not wait or e.ret == EAGAIN then return end
      ended(wait, e, names:number(e._pid, wait.lock), held_by(wait, e._time))
    end)
    if opt.holder then
      every(READ_EVERY, function(time)
        for tid, wait in waits:each() do
          local first = wait.read == UNREAD and time - wait.time > READ_AFTER
          if first or wait.holder > 0 then read_holder(names, tid, wait) end
        end
      end)
    end
  end
  sched.watch_wakers({}, stacks, function(e, waker)
    local wait = waits:get(e.pid)
    if not wait then return end
    wait.waker, wait.waker_stack = waker, stacks and e._stack or stack.none
  end)
  return names:text(), function() return opt.holder and contention.held(waits, names) or nil end
end

--- Returns a report of the waits for futexes that have not ended and whose holder is known; nil
--- without any.
function contention.held(waits, names)
  local function task(tid) return ("%s/%d"):format(comm(tid), tid) end
  local columns = { "kind", { "lock", names:text() }, { "task", task }, { "held by", task } }
  return still_open.report("still waiting", columns, waits, function(tid, wait)
    local latest = wait.latest
    if latest == 0 then return nil end
    return { wait.kind, latest % NAMES, tid, math.floor(latest / NAMES) }
  end)
end

return contention
