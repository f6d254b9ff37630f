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
  idle = "cached data, tmpfs and network file systems need no disk",
  options = {
    text { "device", value = "M:N,…", help = "only these devices, by the MAJ:MIN of lsblk" },
    duration { "than", unit = "ns", help = "only requests that take longer on the disk" },
  },
}

function m.init(opt)
  local requests, place = pending { "issued", "pid", "comm" }, block.places()
  local than, UNKNOWN = opt.than or -1, -1
  local function watch(event, spec, handler)
    local ev = evsel(event, spec, function(e) handler(e, place(e.dev, e.sector)) end)
    if not ev then return end
    ev:filter "nr_sector > 0"
    if opt.device then ev:filter(block.filter("--device", opt.device)) end
  end
  watch("block:block_getrq", {}, function(e, k)
    requests:open(k, e, UNKNOWN, e._pid, e._comm)
  end)
  watch("block:block_rq_merge", { optional = true, everyone = true }, function(e, k)
    requests:close(k, e)
  end)
  watch("block:block_rq_issue", { everyone = true }, function(e, k)
    local r = requests:get(k)
    if r then r.issued = e._time - r.time
    elseif not per_thread() then requests:open(k, e, 0, e._pid, e._comm) end
  end)
  watch("block:block_rq_complete", { everyone = true }, function(e, k)
    local r = requests:close(k, e)
    if not r or r.issued < 0 then return end
    local on_disk = r.delay - r.issued
    if on_disk <= than then return end
    emit { comm = r.comm, pid = r.pid, device = device(e.dev), operation = e.rwbs,
      sector = e.sector, bytes = e.nr_sector * 512, disk_us = on_disk / 1e3,
      queued_us = r.issued > 0 and r.issued / 1e3 or nil,
      error = e.error ~= 0 and errno_name(e.error) or nil }
  end)
end
return m
