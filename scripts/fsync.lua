--- How long programs wait until their data is on disk: fsync, fdatasync, sync, syncfs and
-- sync_file_range by file and process.
-- sync has no file; syncfs has a file of the file system that it writes. msync, which writes a
-- mapping, has no descriptor and is shown without a file.
-- A file's name is read from /proc a few milliseconds after the call: `(unknown)` was closed before
-- that, and ` ?` marks a name that may belong to a file opened later with the same descriptor.
--   perilune fsync
--   perilune fsync --than 10ms --path '/var/lib/*'
local calls_by_name, descriptors = require "calls_by_name", require "descriptors"

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
  local text, heat, has_file = files:text(), opt.heatmap and heat_map {}, {}
  local columns, error = { { "call", syscall_name }, { "file", text } }, { "error", errno_name }
  local slow = latency { columns[1], columns[2], "pid", "comm" }
  local errors = kv { columns[1], columns[2], error, count = "errors" }
  for _, id in ipairs(calls_by_name.numbers("--only", CALLS)) do has_file[id] = true end
  local calls, more = pending { "file", key = "tid" }, opt.path and "" or "," .. WITHOUT_FILE
  local filter = calls_by_name.only(CALLS .. more)
  evsel("raw_syscalls:sys_enter", { wakeup_events = 1 }, function(e)
    local file = not has_file[e.id] and 0 or files:file(e._pid, e.args[0])
    if file then calls:open(e._tid, e, file) end
  end):filter(filter)
  evsel("raw_syscalls:sys_exit", function(e)
    local call = calls:close(e._tid, e)
    if not call then return end
    local id, file, delay = e.id, call.file, call.delay
    slow:add(delay, id, file, e._pid, e._comm)
    if e.ret < 0 then errors:add(id, file, e.ret) end
    if heat then heat:add(e._time, delay) end
    if opt.than and delay > opt.than then
      emit { call = syscall_name(id), file = text(file), pid = e._pid, comm = e._comm,
        delay_us = delay / 1e3 }
    end
  end):filter(filter)
end

function m.on_lost() files:lost() end

return m
