--- Data of files that processes make dirty, pages that are written back, and stalls of writers.
-- `dirtied`: folios that became dirty, by the task that changed them; metadata of the file system
-- is included. A folio is one page, or several that the file system handles as one (ext4, XFS,
-- btrfs); its event has no size. A folio that is changed again before it is written counts once.
-- `written back`: pages that flusher threads wrote, and how often they visited a file with dirty
-- data. What a process writes by fsync is not included: syscalls and blktrace show it.
-- `stalls`: pauses of writers in balance_dirty_pages(), when more is dirty than vm.dirty_ratio and
-- vm.dirty_background_ratio allow, or than a slow device can write soon. The time is what the
-- kernel chose; the sleep may be longer, which task-state shows.
-- Files in tmpfs are never written back.
--   perilune writeback -i 1000
--   perilune writeback --files
local m = monitor {
  summary = "dirty folios by process, pages written back, and stalls of writers",
  group = "disk", order = false, emits = {},
  idle = "no process wrote to a file on a disk",
  options = {
    flag { "files", help = "a row for each file, by inode, as well" },
    duration { "than", unit = "ns", help = "print each longer stall" },
  },
}

function m.init(opt)
  local inode, than = opt.files and "inode", opt.than or math.huge
  local dirtied = kv { "pid", "comm", "device", inode, count = "folios", title = "dirtied" }
  local sums = { { "pages", first = true }, "visits" }
  local written = kv { "device", inode, sums = sums, title = "written back" }
  local stalls = latency { "pid", "comm", "device", title = "stalls" }

  local ino = opt.files and "ino" or nil
  dirtied:count(evsel "writeback:writeback_dirty_folio|writeback:writeback_dirty_page",
    { key = { "_pid", "_comm", "name", ino } })
  evsel("writeback:writeback_single_inode/wrote > 0/", { all_tasks = true }, function(e)
    written:add(e.name, e.ino, e.wrote, 1)
  end)
  evsel("writeback:balance_dirty_pages/pause > 0/", function(e)
    local pause = e.pause * 1e6
    stalls:add(pause, e._pid, e._comm, e.bdi)
    if pause > than then emit(e) end
  end)
end
return m
