--- Time in interrupts, by name: hard interrupts (handlers of devices) and soft interrupts.
-- The time is wall time on the CPU. An interrupt during a soft interrupt counts for both, and time
-- that a hypervisor takes from the CPU is included. --than prints each longer interrupt with what
-- `ran` in it: functions of timers and tasklets and interrupts inside it with their times, packets
-- of network devices, requests that completed, and functions that a clock sampled (1000 Hz; without
-- a PMU it cannot sample where interrupts are off). --detail prints the events themselves.
--   perilune irq -i 1000
--   perilune irq --soft --than 1ms --perins
--   perilune irq --soft --than 1ms --detail
local delays, inside = require "delays", require "inside"

local m = monitor {
  summary = "time in hard and soft interrupts, by name",
  group = "kernel", order = true, emits = { number { "delay_us" }, text { "ran" } },
  options = {
    flag { "hard", help = "only hard interrupts" },
    flag { "soft", help = "only soft interrupts" },
    duration { "than", unit = "ns", help = "print each longer interrupt, and what ran in it" },
    "detail", "perins", "heatmap",
  },
}

function m.init(opt)
  local ran = opt.than and inside.watch()
  if opt.detail and opt.than then
    opt.detail.samecpu = true
    evsel("workqueue:workqueue_queue_work", { optional = true }, function() end)
  end
  local function measure(kind, entry, exit, field, draw)
    local times = latency { perins "cpu", { kind, draw }, title = kind }
    local beside = delays.beside(opt, {
      values = function(start, cpu) return ran:values(cpu, start) end,
    })
    local ends, begins = evsel(exit), evsel(entry)
    -- A hard interrupt inside a soft one is part of what `ran` in that.
    local needs = opt.than and kind == "irq" and "`ran` is read from its records"
      or delays.needs_records(opt)
    times:between({ begins, rows = { [2] = field } }, ends, {
      key = "_cpu", rows = { "_cpu" }, cut_texts = true, keep = opt.than, than = opt.than,
      pair = beside, needs = needs,
    })
  end
  if opt.hard or not opt.soft then
    measure("irq", "irq:irq_handler_entry", "irq:irq_handler_exit", "name")
  end
  if opt.soft or not opt.hard then
    measure("softirq", "irq:softirq_entry", "irq:softirq_exit", "vec", inside.softirq)
  end
end
return m
