--- Where a request to a disk spends its time: from when it is made (get), put into the scheduler's queue (insert) and given to the
-- driver (issue) until it is complete; by device and kind, the whole way as get => complete.
-- A request that no scheduler queues is issued directly: it has no insert. One that the driver gives back is issued again: requeue. I/O
-- that is merged into a request goes its way; a request that is merged into another ends there, and is counted with that. What moves no
-- sectors (a flush) is left out. A request that was made before the run, or when events were lost, is followed from where it is first
-- seen: get => complete counts only whole ones. -p and a command choose whose requests; the rest of their way is seen whoever goes it.
--   perilune blktrace -i 1000
--   perilune blktrace --device 259:0 --than 20ms
local block = require "block"

local m = monitor {
  summary = "the stages of requests to disks: get, insert, issue, complete",
  order = true, idle = "what is cached needs no disk, and neither do tmpfs and network file systems",
  options = {
    text { "device", value = "M:N,…", help = "only requests to these devices, as lsblk numbers them" },
    duration { "than", unit = "ns", help = "print what began and what ended each request that took longer" },
    "heatmap",
  },
}

local GET = "block:block_getrq"

function m.init(opt)
  local stages = latency { { "device", device }, { "kind", block.kind }, { "from", arrow = true }, "to" }
  local requests = pending { "made", "last", "stage", "kind", keep = opt.than }
  local heat = opt.heatmap and heat_map {}              -- of the whole way
  local mine, place = per_thread(), block.places()

  local function watch(event, handler)
    local ev = evsel(event, { everyone = event ~= GET or nil, optional = event == "block:block_rq_merge" or nil })
    if not ev then return end
    ev:filter "nr_sector > 0"
    if opt.device then ev:filter(block.filter("--device", opt.device)) end
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
  watch("block:block_bio_frontmerge", function(e, k)       -- from now on the request begins where this does
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
    if opt.than and took > opt.than then emit(r.event, e, { delay_us = took / 1000 }) end
  end)
end
return m
