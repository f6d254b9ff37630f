--- Programs that are started, each printed when it ends: arguments, user, parent, exit code and how
-- long it ran.
-- `exit` is the exit code, the signal that ended the program (`TERM`), or `exec` if the process
-- executed another one. `comm` is the last name of the program's first thread. `ppid` is the
-- process that forked it; if that was before the run, its parent in /proc. A program that was
-- started before the run is not shown; those that still run at its end are in a table. With
-- --starts a line is printed at the start, too.
-- Arguments and user are read from /proc a few milliseconds after the start. If the program has
-- ended by then, `file` is there instead of `args`: the path of the program, which the kernel
-- records.
-- The kernel does not record exit codes: `exit` is the argument of exit_group, or of exit in the
-- last thread, or the last signal that was generated for the process before it was killed; neither
-- is seen if it is missing. Before Linux 6.16 a program ends with its first thread; one that
-- another thread replaces has `KILL`.
--   perilune execs
--   perilune execs --starts -- make
local exit_status, still_open = require "exit_status", require "still_open"

local m = monitor {
  summary = "programs started: arguments, user, parent, exit code, duration",
  group = "processes", order = true, idle = "no program was started",
  options = { flag { "starts", help = "also print a line when a program starts" } },
}

local running, parents ---@type perilune.Pending, table<integer, integer?>

function m.init(opt)
  running, parents = pending { "comm", "file", "args", "uid", "ppid", "read" }, {}

  local function print(e, program, args, exit, ran_ms)
    emit { args = args ~= "" and args or nil, file = args == "" and program.file or nil,
      comm = program.comm, pid = e._pid, ppid = program.ppid > 0 and program.ppid or nil,
      uid = program.uid >= 0 and program.uid or nil, exit = exit, ran_ms = ran_ms }
  end
  local function ends(e, exit, next_read)
    local program = running:close(e._pid, e)
    if not program then return end
    -- Arguments that were read after the process executed the next program are that program's.
    local args = program.read < next_read and program.args or ""
    print(e, program, args, exit, program.delay / 1e6)
  end

  local executed = exit_status.watch(function(e, status)
    ends(e, status, math.huge)
    parents[e._pid] = nil
  end)
  evsel("sched:sched_process_exec", { wakeup_events = 1 }, function(e)
    local pid, p = e._pid, process(e._pid)
    ends(e, "exec", e._time)
    executed(pid)
    running:open(pid, e, e._comm, e.filename, p and p.args or "", p and p.uid or -1,
      parents[pid] or p and p.ppid or 0, p and p.time or 0)
    if opt.starts then print(e, running:get(pid), p and p.args or "") end
  end)
end

function m.on_comm(r) if running:get(r.tid) then running:get(r.tid).comm = r.comm end end
function m.on_fork(r) if r.tid == r.pid then parents[r.pid] = r.ppid end end

function m.deinit()
  return still_open.report("still running", { { "args", align = "left" }, "pid" }, running,
    function(pid, it) return { it.args ~= "" and it.args or it.file, pid } end)
end
return m
