--- Detects interrupts that stay off too long, by a timer on each CPU, and shows what ran then.
-- The timer fires every half of -L. If it fires late, interrupts were off: at least since it was
-- due (off_min_us), at most since the CPU last handled a timer (off_max_us). Both are printed if
-- off_max_us, less the time that a hypervisor may have taken from the CPU (also subtracted from
-- off_min_us), is longer than -L. With -g the stack is that of the place where interrupts were
-- enabled again. Only ticks in the kernel are judged; --precise adds those in user mode and in idle
-- CPUs. Notes count what does not mean that: missing ticks before one that was on time, and times
-- when all CPUs were late at once (the machine was paused, or the kernel stopped all CPUs).
--   perilune irq-off -g
--   perilune irq-off -L 5ms -C 0-3 --precise
local ticks = require "ticks"

local m = monitor {
  summary = "interrupts that stay off for too long, and what ran then",
  group = "kernel", emits = { number { "off_min_us" }, number { "off_max_us" } },
  whole_cpus = true,
  options = {
    duration { "latency", short = "L", unit = "us", least = "20us", default = "20ms",
      help = "print periods that may be longer than this" },
    flag { "precise", help = "also judge ticks in user mode and in idle CPUs" },
    "call-graph",
  },
}

function m.init(opt)
  local off = latency { "cpu", "comm", title = "interrupts off, at least" }
  local timer = ticks.late_by(opt.latency, opt.precise)
  evsel("irq_vectors:local_timer_entry", { optional = true }, function(e) timer:interrupted(e) end)
  local kernel_only = opt.call_graph and 1
  local spec = { period = timer.period, stack = opt.call_graph,
    exclude_callchain_user = kernel_only }
  evsel("cpu-clock", spec, function(e)
    local least, most = timer:tick(e)
    if least < 0 then return end
    emit(e, { off_min_us = least / 1e3, off_max_us = most / 1e3 })
    off:add(least, e._cpu, e._comm)
  end)
  function m.deinit()
    timer:explain()
    return off
  end
end
return m
