--- Time that disk requests spend between stages, by device and kind; get => complete is the whole.
-- Stages: get (created), insert (queued in the I/O scheduler), issue (passed to the driver),
-- requeue (returned by the driver, which issues it again), complete. A request that no scheduler
-- queues has no insert. Requests without sectors (flushes) are not shown.
-- I/O that is merged into a request is counted with it. A request that is merged into another one
-- ends there and is counted with that one.
-- A request that was created before the run, or while events were lost, is followed from its first
-- event; get => complete contains only requests that were seen from the beginning.
-- Requests that have not completed at the end of the run are in a table, with their last stage.
-- -p and a COMMAND select the tasks that create requests; later stages may come from any task.
--   perilune blktrace -i 1000
--   perilune blktrace --device 259:0 --than 20ms
local block, delays = require "block", require "delays"

local m = monitor {
  summary = "the stages of requests to disks: get, insert, issue, complete",
  group = "disk", order = true, emits = { number { "delay_us" } },
  idle = "cached data, tmpfs and network file systems need no disk",
  options = {
    "device",
    duration { "than", unit = "ns", help = "print first and last event of each slower request" },
    "heatmap",
  },
}

function m.init(opt)
  local columns = { { "device", device }, { "kind", block.kind }, { "from", arrow = true }, "to" }
  local whole, stages = delays.table(opt, columns)
  local requests = pending { "made", "last", "stage", "kind", keep = opt.than }
  local place, at = block.places()
  local watch = block.watcher(opt, requests, place, function(k, e, r)
    requests:open(k, e, r.made, r.last, r.stage, r.kind)
  end)
  watch("block:block_getrq",
    function(e, k, kind) requests:open(k, e, e._time, e._time, "get", kind) end)
  for _, stage in ipairs { "insert", "issue", "requeue" } do
    watch("block:block_rq_" .. stage, function(e, k, kind)
      local time, r = e._time, requests:get(k)
      if r then
        stages:add(time - r.last, e.dev, r.kind, r.stage, stage)
        r.last, r.stage = time, stage
      elseif not some_tasks() then requests:open(k, e, -1, time, stage, kind) end
    end)
  end
  watch("block:block_rq_complete", function(e, k)
    local r, time = requests:close(k, e), e._time
    if not r then return end
    stages:add(time - r.last, e.dev, r.kind, r.stage, "complete")
    if r.made >= 0 then whole(r, e, time - r.made, e.dev, r.kind, "get", "complete") end
  end)
  function m.deinit() return stages, block.not_completed(requests, at) end
end
return m
