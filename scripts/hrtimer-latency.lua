--- How late high-resolution timers expire, by the function that they call.
-- The delay is the time from a timer's expiry time until its function is called. Causes are
-- interrupts that are off, and a CPU that is in deep sleep or, in a virtual machine, not running.
-- Within its slack a timer may expire earlier, together with another one: the delay is then 0.
-- Timers that were set before the run are not counted. A timer counts as unmatched if it was set
-- before its CPU went idle and no switch shows the end of the idle period: events of that period
-- are missing, so the timer may have expired and been set again.
--   perilune hrtimer-latency -i 1000
--   perilune hrtimer-latency --than 1ms --perins
local longer = require "longer"

local m = monitor {
  summary = "how late timers expire, by function",
  group = "kernel", order = true, emits = { number { "delay_us" } },
  options = {
    duration { "than", unit = "ns", help = "print start and expiry of each timer that is later" },
    "perins", "heatmap",
  },
}

function m.init(opt)
  local late = latency { perins "cpu", "function" }
  local heat, print = opt.heatmap and heat_map {}, longer.printer(opt.than)
  local armed = pending { "expires", key = "pointer", keep = opt.than }
  local idle = per_cpu(0)                                  -- 1 while the CPU is idle
  local missing = per_cpu(-math.huge)                      -- end of an idle period without a switch

  local function look(e)
    local cpu = e._cpu
    if idle[cpu] == 1 and e._tid ~= 0 then idle[cpu], missing[cpu] = 0, e._time end
  end

  if not per_thread() then
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
    local timer, cpu = armed:get(e.hrtimer), e._cpu
    if not timer then return end                           -- set before the run
    -- Replaces a start whose end is missing, so that it counts as unmatched.
    if timer.time <= missing[cpu] then armed:open(e.hrtimer, e, 0) end
    timer = armed:close(e.hrtimer, e) --[[@as perilune.State]]
    if timer.expires == 0 then return end
    local delay = math.max(0.0, e.now - timer.expires)
    late:add(delay, cpu, name(e))
    if heat then heat:add(e._time, delay) end
    print(timer, e, delay)
  end)
end
return m
