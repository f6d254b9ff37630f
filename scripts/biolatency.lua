--- How long disks take for their requests: a histogram for each device and operation.
-- The time is that from the issue of a request to the driver until its completion. It does not
-- include the time in the queue of an I/O scheduler; blktrace shows each stage.
-- Requests without sectors (flushes) are not shown. A note at the end counts the requests that have
-- no completion yet. With -p or a COMMAND only requests that those tasks issue are counted; writes
-- of the page cache are issued by kernel threads.
--   perilune biolatency -i 1000
--   perilune biolatency --device 259:0 --than 20ms
local block, delays = require "block", require "delays"

local m = monitor {
  summary = "disk latency as histograms by device and operation",
  group = "disk", order = true, emits = { number { "delay_us" } },
  idle = "cached data, tmpfs and network file systems need no disk",
  options = {
    "device",
    duration { "than", unit = "ns", help = "print first and last event of each slower request" },
    "heatmap",
  },
}

local results ---@type function

function m.init(opt)
  local columns = { { "device", device }, { "operation", block.kind } }
  local spread = hist.log2 { columns[1], columns[2], title = "latency", unit = "ns",
    metric = "none" }
  results = block.measure_requests(opt, latency(columns), spread, delays.beside(opt))
end

function m.deinit() return results() end
return m
