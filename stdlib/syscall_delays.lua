--- How long system calls take, by call, and their errors.
local calls_by_name, delays = require "calls_by_name", require "delays"
local still_open, syscall_args = require "still_open", require "syscall_args"

--- Returns the number of a system call.
local function number_of(name) return calls_by_name.numbers("--only", name)[1] or -1 end

-- Why a call has no pair, by its number in the table. An execve by a thread other than the first
-- one of its process returns in the first one.
local UNPAIRED = { "began before the run or in another thread", "does not return" }

--- Measures system calls. `groups` are the stages raw_syscalls:sys_enter and raw_syscalls:sys_exit.
--- Returns a function that returns the tables at the end of a run; for watched tasks, one of them
--- has the calls that have not returned.
---@return fun(): perilune.Latency, perilune.Kv, perilune.Kv, perilune.Report?
local function measure(groups, opt)
  local than = opt.than or opt.only_than
  local exit, enter = evsel(groups[2][1]), evsel(groups[1][1])
  local decode = than and enter.fields.args and syscall_args.decoder()
    or function(_, _) return {} end
  local look = {
    has_key = function(e, tid) return e._tid == tid end,
    heading = function(tid, id) return { { "syscall", syscall_name(id) }, { "tid", tid } } end,
  }
  if than then syscall_args.print_calls() end
  if than and not opt.detail then
    function look.print(call, e, delay, _, id)
      if delay <= than then return end
      local shown = decode(id, call.event)
      if opt.is_source then shown = { args = syscall_args.joined(shown) } end
      shown.syscall, shown.delay_us = syscall_name(id), delay / 1000
      emit(call.event, e, shown)
    end
  end
  local calls = latency { perins "tid", { "syscall", syscall_name } }
  local beside, records = delays.beside(opt, look), delays.needs_records(opt)
  local errors = kv { { "syscall", syscall_name }, { "error", errno_name }, count = "errors" }
  local unpaired = kv { { "syscall", syscall_name },
    { "unpaired", function(why) return UNPAIRED[why] end }, count = "calls" }
  local ends = ("id == %d || id == %d || id == %d"):format(number_of "exit",
    number_of "exit_group", number_of "rt_sigreturn")
  local began = ("(id == %d || id == %d) && ret == 0"):format(number_of "execve",
    number_of "execveat")
  local open = calls:between(enter, exit, {
    -- The exit of rt_sigreturn has the number -1: it ends its start and is not measured.
    key = "_tid", same = "id", rows = { "_tid", "id" }, threads = true,
    longer = opt.only_than, keep = than, age = opt.max_age, pair = beside,
    than = than, needs = records,
    counts = {
      { errors, at = "pair", where = "ret < 0 && ret > -4096", key = { "id", "ret" } },
      { unpaired, at = "start", where = ends, key = { "id", "2" } },
      { unpaired, at = "single", where = began, key = { "id", "1" } },
    },
  })
  -- A thread that executes a program may continue under another number.
  local execs = { [number_of "execve"] = true, [number_of "execveat"] = true }
  -- On a whole machine, most tasks are in a call: they wait.
  local columns = per_thread() and { "tid", { "syscall", syscall_name } }
  return function()
    return calls, errors, unpaired, columns and still_open.report("in progress", columns, open,
      function(tid, call) return not execs[call.same] and { tid, call.same } or nil end) or nil
  end
end

return measure
