--- How long programs wait until their data is on disk: fsync, fdatasync, sync, syncfs and
-- sync_file_range by file and process.
-- sync has no file; syncfs has a file of the file system that it writes. msync, which writes a
-- mapping, has no descriptor and is shown without a file.
-- A file's name is read from /proc a few milliseconds after the call: `(unknown)` was closed before
-- that, and ` ?` marks a name that may belong to a file opened later with the same descriptor.
--   perilune fsync
--   perilune fsync --than 10ms --path '/var/lib/*'
local delays, descriptors = require "delays", require "descriptors"

local m = monitor {
  summary = "how long fsync, fdatasync, sync and the like take, by file",
  group = "disk", order = true, every = "1s",
  idle = "no program waited for its data to reach the disk",
  options = {
    text { "path", value = "GLOBS", help = "only files with these paths: /var/lib/*,!*.tmp" },
    duration { "than", unit = "ns", help = "print each longer call" },
    "heatmap",
  },
}

local CALLS, WITHOUT_FILE = "fsync,fdatasync,syncfs,sync_file_range", "sync,msync"
local files ---@type perilune.Descriptors

function m.init(opt)
  files = descriptors.watch(opt)
  local text = files:text()
  local columns, error = { { "call", syscall_name }, { "file", text } }, { "error", errno_name }
  local add, slow = delays.table(opt, { columns[1], columns[2], "pid", "comm" }, {
    print = opt.than and function(_, _, delay, id, file, pid, comm)
      if delay <= opt.than then return end
      emit { call = syscall_name(id), file = text(file), pid = pid, comm = comm,
        delay_us = delay / 1e3 }
    end,
  })
  local errors = kv { columns[1], columns[2], error, count = "errors" }
  local others = not opt.path and WITHOUT_FILE or nil
  files:watch_calls({ calls = CALLS, others = others, soon = true }, function(call, e)
    local id, file = e.id, call.file
    add(call, e, call.delay, id, file, e._pid, e._comm)
    if e.ret < 0 then errors:add(id, file, e.ret) end
  end)
  function m.interval()
    files:interval()
    return slow, errors
  end
end

function m.on_lost() files:lost() end

return m
