--- Interrupts that stay off for too long: a timer of each CPU that comes late, and what ran then.
-- The timer fires every half of -L. When it comes late, interrupts were off: at least since it was
-- due (off_min_us), at most since the CPU last handled a timer (off_max_us). Both are printed if
-- the second, less the time that a hypervisor may have taken from the CPU, is longer than -L. That
-- time is subtracted from the first. The stack of -g is that of the place where interrupts came on
-- again. Only ticks in the kernel count, unless --precise asks for those in user mode and in idle
-- CPUs, too. If one or two ticks are missing and the next is on time, the kernel wrote no samples
-- of them, as happens under load: a note counts them.
--   perilune irq-off -g
--   perilune irq-off -L 5ms -C 0-3 --precise
local away, ticks = require "away", require "ticks"

local m = monitor {
  summary = "interrupts that stay off for too long, and what ran then",
  order = false,                                           -- a CPU's records are in order
  options = {
    duration { "latency", short = "L", unit = "us", default = "20ms",
      help = "print what may have been off for longer" },
    flag { "precise", help = "also judge ticks in user mode and in idle CPUs" },
    "call-graph",
  },
}

---@type perilune.Latency, perilune.ticks.Ticks, integer
local off, timer, explained

function m.init(opt)
  local limit, period = opt.latency, math.floor(opt.latency / 2)
  if period < 1e4 then error("-L: the timer fires each half of it, 10us at least: use 20us", 0) end
  off, explained = latency { "cpu", "comm", title = "interrupts off, at least" }, 0
  timer = ticks.of(period)
  local since, idles = away.watch(), per_cpu(0)
  evsel("irq_vectors:local_timer_entry", { optional = true }, function(e) timer:interrupted(e) end)
  local spec = { period = period, stack = opt.call_graph, exclude_callchain_user = 1 }
  evsel("cpu-clock", spec, function(e)
    local cpu, is_idle = e._cpu, e._tid == 0
    local least, most = timer:tick(e)
    if is_idle then idles[cpu] = 1 end
    if most <= limit or not opt.precise and (is_idle or e._ip >= 0) then return end
    -- Some kernels stop to write records of a CPU's idle task: then its ticks are missing, too.
    local stolen, idle = since(cpu, e._time - most)
    local gone = idles[cpu] == 1 and stolen or stolen + idle
    if most - gone <= limit then explained = explained + 1 return end
    least = math.max(0, least - gone)
    emit(e, { off_min_us = least / 1e3, off_max_us = most / 1e3 })
    off:add(least, cpu, e._comm)
  end)
end

function m.deinit()
  local missing = timer.missing
  if missing > 0 then note("ticks without a sample before one that was on time: %d", missing) end
  if explained > 0 then note("late ticks of stolen or idle CPUs, left out: %d", explained) end
  return off
end
return m
