--- Kills by the out-of-memory killer, and the time before: which processes grew, and how long tasks
-- waited in direct reclaim. A kill is printed at once; the tables follow at the end of its interval
-- and show this interval and the one before it.
-- `by` is the task whose allocation failed, in most cases another one than the victim. Sizes of the
-- victim are those at the kill, in KiB (since Linux 6.9).
-- `some10` and `some60` are the share of the last 10 and 60 s in percent in which tasks waited for
-- memory, `full10` and `full60` that in which all did: /proc/pressure/memory when the kill is read.
-- `pressure` shows them for the time that the tables cover. Both need a kernel with psi=1.
-- `grown`: memory that became resident in a process by its own page faults: anonymous, of files and
-- shared. Each process counts from its first change in the run. The event costs about a microsecond
-- per page fault. A kill by a daemon in user space, such as systemd-oomd, is a signal.
--   perilune oom
--   perilune oom -i 10000
local memory, recent = require "memory", require "recent"

local m = monitor {
  summary = "kills by the OOM killer, and what grew and waited before",
  group = "memory", order = true, every = "1min", whole_cpus = true,
  idle = "no process was killed for lack of memory, and none grew",
}

function m.init()
  local kills, stalls, sums = 0, memory.stalls(), { { "wait_us", first = true }, "reclaims" }
  local grown, grow, growth_ends = recent.table {
    "pid", "comm", sums = { "bytes" }, top = 20, title = "grown",
  }
  local waits, wait, waits_end = recent.table {
    "pid", "comm", sums = sums, top = 20, title = "direct reclaim",
  }
  memory.growth(function(e, bytes) grow(e._pid, e._comm, bytes) end)
  memory.reclaims({}, function(start, e)
    wait(e._pid, e._comm, math.floor(start.delay / 1e3), 1)
  end)
  evsel("oom:mark_victim", function(e)
    kills = kills + 1
    local row = { victim = comm(e.pid), pid = e.pid, by = e._comm, by_pid = e._pid }
    local has_sizes = e._event.fields["anon_rss"] ~= nil ---@type boolean
    if has_sizes then
      row.anon_kib, row.file_kib, row.shmem_kib = e.anon_rss, e.file_rss, e.shmem_rss
    end
    emit(memory.add_pressure(row))
  end)
  function m.interval()
    local pressure, killed = stalls(), kills > 0
    kills = 0
    growth_ends(killed)
    waits_end(killed)
    if killed then return pressure, grown, waits end
  end
end
return m
