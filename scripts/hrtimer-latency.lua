--- How late high resolution timers expire, by the function that they call.
-- Late is what lies between the time that a timer was set to and the clock when its function is called: interrupts that
-- were off, a CPU that slept deeply or was not there. A timer may be called up to its slack earlier, with another: that is not late, 0.
-- Timers that were set before the run began are not among them. Nor is one that the CPU would have run already, with others that it ran
-- more than a millisecond after this one was due: its own expiry, or its being set anew, is missing, and it counts as unmatched.
--   perilune hrtimer-latency -i 1000
--   perilune hrtimer-latency --than 1ms --perins
local m = monitor {
  summary = "how late timers expire, by function",
  order = true,
  options = {
    duration { "than", unit = "us", help = "print how each later timer was set and expired" },
    "perins", "heatmap",
  },
}

local SAME, SLACK = 1e5, 1e6                               -- ns: of one interrupt; for interrupts that take long

function m.init(opt)
  local late = latency { perins "cpu", "function" }
  local heat = opt.heatmap and heat_map {}
  local armed = pending { "expires", "soft", key = "pointer", keep = opt.than }
  local last, before = per_cpu(-math.huge), per_cpu(-math.huge)    -- when a CPU ran timers, and when in the interrupt before that

  local start = evsel "timer:hrtimer_start"
  local soft = expr_of(start.fields.mode and "mode & 4" or "0", start, "number")    -- those are run later, from a soft interrupt
  start:each(function(e)
    armed:close(e.hrtimer, e)                              -- it was taken back, or is set anew
    armed:open(e.hrtimer, e, e.expires, soft(e))
  end)
  local expire = evsel "timer:hrtimer_expire_entry"
  local name = expr_of("ksymbol(function)", expire, "text")
  expire:each(function(e)
    local timer = armed:get(e.hrtimer)
    if not timer then return end                           -- it was set before the run
    local cpu, time, delay = e._cpu, e._time, e.now - timer.expires
    if timer.soft == 0 then
      if time - last[cpu] > SAME then before[cpu] = last[cpu] end
      last[cpu] = time
      if math.max(timer.time, time - delay) < before[cpu] - SLACK then
        armed:open(e.hrtimer, e, 0, 0)                     -- takes the place of what had no end
        armed:close(e.hrtimer, e)
        return
      end
    end
    timer = armed:close(e.hrtimer, e)
    if delay < 0 then delay = 0 end
    late:add(delay, cpu, name(e))
    if heat then heat:add(time, delay) end
    if opt.than and delay > opt.than then emit(timer.event, e) end
  end)
end
return m
