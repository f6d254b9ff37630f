--- Why processes end: the exit code, or the signal. No record contains it, so it is derived from
--- the calls and signals before the end.
local exit_status = {}

-- Signals that do not end a process that has no handler for them.
---@type table<string, boolean?>
local NOT_FATAL = { CHLD = true, CONT = true, STOP = true, TSTP = true, TTIN = true, TTOU = true,
  URG = true, WINCH = true }
-- Maximum number of tasks whose last signal is remembered.
local TASKS = 65536

--- Calls `ended(e, is_last)` at the end of each watched thread. `is_last`: its process ends with
--- it; before Linux 6.16, whose events do not show which thread is the last one, it is the first.
--- Returns whether they show it.
---@param ended fun(e: perilune.Sample, is_last: boolean)
---@return boolean shows_last
function exit_status.watch_threads(ended)
  local is_last = function(e) return e._tid == e._pid end
  local exit = evsel("sched:sched_process_exit", function(e) ended(e, is_last(e)) end)
  local fields = exit.fields ---@type table<string, any>
  if fields.group_dead then is_last = function(e) return e.group_dead ~= 0 end end
  return fields.group_dead ~= nil
end

--- Follows the ends of the watched processes. Calls `ended(e, status)` when the last thread of a
--- process ends; before Linux 6.16, whose events do not show which one is the last, when the first
--- thread ends. `status` is the exit code as a number, the name of a signal (`TERM`), or nil if the
--- call or signal was not seen.
---
--- Returns a function to call when a process executes a program: a thread other than the first one
--- has then killed the first one, without the end of the process.
---
---     exit_status.watch(function(e, status) ends:add(e._pid, status or "?") end)
---@param ended fun(e: perilune.Sample, status: integer|string|nil)
---@return fun(pid: integer) executed
function exit_status.watch(ended)
  local codes, signals, generated, tasks = {}, {}, {}, 0
  -- The code of exit_group() holds for all threads; without it, the last thread sets the code, and
  -- before Linux 6.16 the first one ends the process here.
  local OF_GROUP, any_thread = 0x100, false
  evsel("syscalls:sys_enter_exit_group", function(e)
    codes[e._pid] = bit.bor(OF_GROUP, bit.band(e.error_code, 0xff))
  end)
  evsel("syscalls:sys_enter_exit", function(e)
    local before = codes[e._pid]
    if (any_thread or e._tid == e._pid) and not (before and before >= OF_GROUP) then
      codes[e._pid] = bit.band(e.error_code, 0xff)
    end
  end)
  evsel("signal:signal_generate", { task = "pid" }, function(e)
    if e.result ~= 0 then return end
    if not generated[e.pid] then
      if tasks == TASKS then generated, tasks = {}, 0 end
      tasks = tasks + 1
    end
    generated[e.pid] = signal_name(e.sig)
  end)
  evsel("signal:signal_deliver", function(e)
    if e.sa_handler ~= 0 then return end
    -- A fatal signal without a core dump reaches each thread as KILL (complete_signal(),
    -- kernel/signal.c).
    local name = signal_name(e.sig)
    if name == "KILL" then name = generated[e._tid] or generated[e._pid] or name end
    if not NOT_FATAL[name] then signals[e._pid] = name end
  end)
  any_thread = exit_status.watch_threads(function(e, is_last)
    if not is_last then return end
    local pid = e._pid
    if generated[pid] then generated[pid], tasks = nil, tasks - 1 end
    local code = codes[pid]
    local status = code and code >= OF_GROUP and code - OF_GROUP or signals[pid] or code
    codes[pid], signals[pid] = nil, nil
    ended(e, status)
  end)
  return function(pid) codes[pid], signals[pid] = nil, nil end
end

return exit_status
