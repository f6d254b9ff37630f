--- How late high-resolution timers expire, by the function that they call.
-- The delay is the time from a timer's expiry time until its function is called. Causes are
-- interrupts that are off, and a CPU that is in deep sleep or, in a virtual machine, not running.
-- Within its slack a timer may expire earlier, together with another one: the delay is then 0.
-- Timers that were set before the run are not counted. A timer counts as unmatched if it was set
-- before its CPU went idle and no switch shows the end of the idle period: events of that period
-- are missing, so the timer may have expired and been set again.
--   perilune hrtimer-latency -i 1000
--   perilune hrtimer-latency --than 1ms --perins
local delays = require "delays"

local m = monitor {
  summary = "how late timers expire, by function",
  group = "kernel", order = true, emits = { number { "delay_us" } },
  options = {
    duration { "than", unit = "ns", help = "print start and expiry of each timer that is later" },
    "perins", "heatmap",
  },
}

function m.init(opt)
  local add = delays.table(opt, { perins "cpu", "function" })
  local armed = pending { "expires", key = "pointer", keep = opt.than }
  local idle = per_cpu(0)                                  -- 1 while the CPU is idle
  local missing = per_cpu(-math.huge)                      -- end of an idle period without a switch

  local function look(e)
    local cpu = e._cpu
    if idle[cpu] == 1 and e._tid ~= 0 then idle[cpu], missing[cpu] = 0, e._time end
  end

  if not some_tasks() then
    evsel("sched:sched_switch/next_pid==0||prev_pid==0/", function(e)
      look(e)
      idle[e._cpu] = e.next_pid == 0 and 1 or 0
    end)
  end
  evsel("timer:hrtimer_start", function(e)
    look(e)
    armed:close(e.hrtimer, e)                              -- cancelled, or set again
    armed:open(e.hrtimer, e, e.expires)
  end)
  local expire = evsel "timer:hrtimer_expire_entry"
  local name = expr_of("ksymbol(function)", expire, "text")
  expire:each(function(e)
    look(e)
    local timer = armed:close(e.hrtimer, e)
    if not timer then return end
    if timer.time <= missing[e._cpu] then unmatched() return end
    add(timer, e, math.max(0.0, e.now - timer.expires), e._cpu, name(e))
  end)
end
return m
