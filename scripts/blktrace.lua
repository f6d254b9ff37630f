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
local block, longer = require "block", require "longer"

local m = monitor {
  summary = "the stages of requests to disks: get, insert, issue, complete",
  group = "disk", order = true, emits = { number { "delay_us" } },
  idle = "cached data, tmpfs and network file systems need no disk",
  options = {
    text { "device", value = "M:N,…", help = "only these devices, by the MAJ:MIN of lsblk" },
    duration { "than", unit = "ns", help = "print first and last event of each slower request" },
    "heatmap",
  },
}

local GET = "block:block_getrq"
local stages, requests, at ---@type perilune.Latency?, perilune.Pending, function

function m.init(opt)
  local columns = { { "device", device }, { "kind", block.kind }, { "from", arrow = true }, "to" }
  stages = latency(columns)
  requests = pending { "made", "last", "stage", "kind", keep = opt.than }
  local heat, print = opt.heatmap and heat_map {}, longer.printer(opt.than) -- of get => complete
  local mine, place = per_thread(), nil
  place, at = block.places()

  local function watch(event, handler)
    local ev = block.watch(opt, event, event ~= GET, event == "block:block_rq_merge")
    if not ev then return end
    local kind = expr_of("rwbs[0]", ev, "number")
    ev:each(function(e) handler(e, place(e.dev, e.sector), kind(e)) end)
  end
  local function reaches(stage)
    return function(e, k, kind)
      local time, r = e._time, requests:get(k)
      if not r then
        if not mine then requests:open(k, e, -1, time, stage, kind) end
        return
      end
      stages:add(time - r.last, e.dev, r.kind, r.stage, stage)
      r.last, r.stage = time, stage
    end
  end

  watch(GET, function(e, k, kind) requests:open(k, e, e._time, e._time, "get", kind) end)
  watch("block:block_rq_insert", reaches "insert")
  watch("block:block_rq_issue", reaches "issue")
  watch("block:block_rq_requeue", reaches "requeue")
  watch("block:block_rq_merge", function(e, k) requests:close(k, e) end)
  watch("block:block_bio_frontmerge", function(e, k)       -- the request now begins at this sector
    local r = requests:close(k + e.nr_sector, e)
    if r then requests:open(k, e, r.made, r.last, r.stage, r.kind) end
  end)
  watch("block:block_rq_complete", function(e, k)
    local r = requests:close(k, e)
    if not r then return end
    local time = e._time
    stages:add(time - r.last, e.dev, r.kind, r.stage, "complete")
    if r.made < 0 then return end
    local took = time - r.made
    stages:add(took, e.dev, r.kind, "get", "complete")
    if heat then heat:add(time, took) end
    print(r, e, took)
  end)
end

function m.deinit() return stages, block.not_completed(requests, at) end
return m
