--- Each request to a disk, printed when it completes, with the process that made it.
-- `comm` and `pid` are those of the task that created the request. Writes of the page cache are
-- created by kernel threads (kworker, jbd2), not by the program that wrote the data.
-- `queued_us` is the time from its creation to its issue to the driver, `disk_us` that from there
-- to its completion. A request that was created before the run has no `queued_us`; its task is then
-- the one that issued it. I/O that is merged into a request is part of that request. Requests
-- without sectors (flushes) are not shown.
--   perilune biosnoop --device 259:0
--   perilune biosnoop --than 20ms
local block = require "block"

local m = monitor {
  summary = "each request to a disk: process, sector, size, time",
  group = "disk", order = true,
  emits = {
    text { "comm" }, number { "pid" }, text { "device" }, text { "operation" }, number { "sector" },
    number { "bytes" }, number { "disk_us" }, number { "queued_us" }, text { "error" },
  },
  idle = "cached data, tmpfs and network file systems need no disk",
  options = {
    "device",
    duration { "than", unit = "ns", help = "only requests that take longer on the disk" },
  },
}

function m.init(opt)
  local requests, place = pending { "made", "issued", "pid", "comm" }, block.places()
  local than, NEVER = opt.than or -1, -1
  local watch = block.watcher(opt, requests, place, function(k, e, r)
    requests:open(k, e, r.made, r.issued, r.pid, r.comm)
  end)
  watch("block:block_getrq", function(e, k)
    requests:open(k, e, e._time, NEVER, e._pid, e._comm)
  end)
  watch("block:block_rq_issue", function(e, k)
    local r = requests:get(k)
    if r then r.issued = e._time
    elseif not some_tasks() then requests:open(k, e, NEVER, e._time, e._pid, e._comm) end
  end)
  watch("block:block_rq_complete", function(e, k)
    local r = requests:close(k, e)
    if not r or r.issued == NEVER or e._time - r.issued <= than then return end
    emit { comm = r.comm, pid = r.pid, device = device(e.dev), operation = e.rwbs,
      sector = e.sector, bytes = e.nr_sector * 512, disk_us = (e._time - r.issued) / 1e3,
      queued_us = r.made ~= NEVER and (r.issued - r.made) / 1e3 or nil,
      error = e.error ~= 0 and errno_name(e.error) or nil }
  end)
end
return m
