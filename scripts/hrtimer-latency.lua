--- How late high resolution timers expire, by the function that they call.
-- Late is what lies between the time that a timer was set to and the clock when its function is called: interrupts that
-- were off, a CPU that slept deeply or was not there. A timer may be called up to its slack earlier, with another: that is not late, 0.
-- Timers that were set before the run began are not among them. Nor is one that was set before its CPU went idle and came back without
-- a switch that says so: what a CPU does while it is idle is then missing, and the timer may have expired and been set anew. It
-- counts as unmatched.
--   perilune hrtimer-latency -i 1000
--   perilune hrtimer-latency --than 1ms --perins
local m = monitor {
  summary = "how late timers expire, by function",
  order = true,
  options = {
    duration { "than", unit = "ns", help = "print how each later timer was set and expired" },
    "perins", "heatmap",
  },
}

function m.init(opt)
  local late = latency { perins "cpu", "function" }
  local heat = opt.heatmap and heat_map {}
  local armed = pending { "expires", key = "pointer", keep = opt.than }
  local idle, missing = per_cpu(0), per_cpu(-math.huge)    -- 1 since a CPU went idle; until when it was, without a word

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
    armed:close(e.hrtimer, e)                              -- it was taken back, or is set anew
    armed:open(e.hrtimer, e, e.expires)
  end)
  local expire = evsel "timer:hrtimer_expire_entry"
  local name = expr_of("ksymbol(function)", expire, "text")
  expire:each(function(e)
    look(e)
    local timer, cpu = armed:get(e.hrtimer), e._cpu
    if not timer then return end                           -- it was set before the run
    if timer.time <= missing[cpu] then armed:open(e.hrtimer, e, 0) end    -- takes the place of what had no end
    timer = armed:close(e.hrtimer, e)
    if timer.expires == 0 then return end
    local delay = math.max(0.0, e.now - timer.expires)
    late:add(delay, cpu, name(e))
    if heat then heat:add(e._time, delay) end
    if opt.than and delay > opt.than then emit(timer.event, e, { delay_us = delay / 1000 }) end
  end)
end
return m
