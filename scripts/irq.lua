--- Time in interrupts, by name: hard interrupts (handlers of devices) and soft interrupts.
-- The time is wall time on the CPU. An interrupt during a soft interrupt counts for both, and time
-- that a hypervisor takes from the CPU is included. --than --detail prints what ran in each longer
-- interrupt: functions of timers, polls of network devices, tasklets, and interrupts inside it.
--   perilune irq -i 1000
--   perilune irq --soft --than 1ms --perins
--   perilune irq --soft --than 1ms --detail
local delays, relation = require "delays", require "relation"
-- Events inside interrupts, with the function that runs.
local INSIDE = { "timer:timer_expire_entry", "timer:hrtimer_expire_entry", "napi:napi_poll",
  "irq:tasklet_entry", "workqueue:workqueue_queue_work", "block:block_rq_complete" }
local SOFT = {
  [0] = "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL",
  "TASKLET", "SCHED", "HRTIMER", "RCU",
}

local m = monitor {
  summary = "time in hard and soft interrupts, by name",
  group = "kernel", order = true, emits = { number { "delay_us" } },
  options = {
    flag { "hard", help = "only hard interrupts" },
    flag { "soft", help = "only soft interrupts" },
    duration { "than", unit = "ns", help = "print entry and exit of each longer interrupt" },
    "detail", "perins", "heatmap",
  },
}

function m.init(opt)
  if opt.detail and opt.than then
    opt.detail.samecpu = true
    for _, name in ipairs(INSIDE) do evsel(name, { optional = true }, function() end) end
  end
  local function measure(kind, entry, exit, field, draw)
    local add = delays.table(opt, { perins "cpu", { kind, draw }, title = kind })
    relation.stages({ { entry }, { exit } }, opt, {
      keep = opt.than,
      key = function() return "_cpu" end,
      value = function() return field end,
      pair = function(start, e, _, cpu) add(start, e, start.delay, cpu, start.value) end,
    })
  end
  if opt.hard or not opt.soft then
    measure("irq", "irq:irq_handler_entry", "irq:irq_handler_exit", "name")
  end
  local function name(vec) return SOFT[vec] or tostring(vec) end
  if opt.soft or not opt.hard then
    measure("softirq", "irq:softirq_entry", "irq:softirq_exit", "vec", name)
  end
end
return m
