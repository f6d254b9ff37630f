--- Reads and writes by file and process: calls, bytes and time.
-- Counted are the system calls read, write, pread64, pwrite64, readv, writev, preadv, pwritev and
-- their variants, and sendfile, copy_file_range and splice, each as a read of one file and a write
-- of another; not memory-mapped files and io_uring, nor 32-bit programs.
-- Bytes are what the calls returned; most of them come from the page cache. A call that fails
-- counts as a call without bytes. Time is that from entry to return: a read of an idle socket
-- lasts until there is data.
-- A file's name is the path that open was passed, if the record contains it. Otherwise it is read
-- from /proc after its first call, within milliseconds on a busy machine and 0.4 s on a quiet one:
-- `(unknown)` was closed before that, and ` ?` marks a name that may belong to a file opened later
-- with the same descriptor. Sockets and pipes are one row per process, unless --inodes is given.
-- Threads that got descriptors of their own before the run (unshare(CLONE_FILES), clone without
-- it), and processes that share them, are not known: their names may be those of other files.
--   perilune files -i 1000
--   perilune files --path '/var/log/*,*.db' -- make
local descriptors = require "descriptors"

local m = monitor {
  summary = "reads and writes by file and process: calls, bytes, time",
  group = "disk", order = true, every = "1s",
  options = {
    text { "path", value = "GLOBS", help = "only files with these paths: /etc/*,!*.swp" },
    flag { "inodes", help = "show each socket and pipe by its inode" },
  },
}

local READS, WRITES = "read,pread64,readv,preadv,preadv2", "write,pwrite64,writev,pwritev,pwritev2"
local COPIES = { { "sendfile", 1, 0 }, { "copy_file_range", 0, 2 }, { "splice", 0, 2 } }
local SUMS = { "reads", "read_bytes", "writes", "written_bytes", { "time(ns)", first = true } }
local files ---@type perilune.Descriptors

function m.init(opt)
  files = descriptors.watch(opt)
  local used = kv { { "file", files:text() }, "pid", "comm", sums = SUMS, top = 100 }
  files:watch_calls({ calls = READS, writes = WRITES, copies = COPIES }, function(call, e)
    local read, written, bytes = call.file, call.to, math.max(e.ret, 0)
    if read ~= 0 then used:add(read, e._pid, e._comm, 1, bytes, 0, 0, call.delay) end
    if written ~= 0 then used:add(written, e._pid, e._comm, 0, 0, 1, bytes, call.delay) end
  end)
  function m.interval()
    files:interval()
    return used
  end
end

function m.on_lost() files:lost() end

return m
