--- How long interrupts take, by name: the handlers of devices, and what they leave to the soft ones.
-- The time of a handler is wall time on its CPU: what interrupts a soft one counts for both, and so does what a hypervisor takes.
--   perilune irq -i 1000
--   perilune irq --soft --than 1ms --perins
local relation = require "relation"
local SOFT = { [0] = "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU" }

local m = monitor {
  summary = "time in hard and soft interrupts, by name",
  order = true,
  options = {
    flag { "hard", help = "only the handlers of devices" },
    flag { "soft", help = "only soft interrupts" },
    duration { "than", unit = "ns", help = "print entry and exit of each longer one" },
    "perins", "heatmap",
  },
}

function m.init(opt)
  local heat = opt.heatmap and heat_map {}
  local function measure(kind, entry, exit, field, draw)
    local times = latency { perins "cpu", { kind, draw }, title = kind }
    relation.stages({ { entry }, { exit } }, opt, {
      keep = opt.than,
      key = function() return "_cpu" end,
      value = function() return field end,
      pair = function(start, e, _, cpu)
        local delay = start.delay
        times:add(delay, cpu, start.value)
        if heat then heat:add(e._time, delay) end
        if opt.than and delay > opt.than then emit(start.event, e, { delay_us = delay / 1000 }) end
      end,
    })
  end
  if opt.hard or not opt.soft then measure("irq", "irq:irq_handler_entry", "irq:irq_handler_exit", "name") end
  if opt.soft or not opt.hard then
    measure("softirq", "irq:softirq_entry", "irq:softirq_exit", "vec", function(vec) return SOFT[vec] or tostring(vec) end)
  end
end
return m
