--- How late high resolution timers expire, by the function that they call.
-- Late is what lies between the time that a timer was set to and the clock when its function is called: interrupts that
-- were off, a CPU that slept deeply or was not there. A timer may be called up to its slack earlier, with another: that is not late, 0.
-- Timers that were set before the run began are not among them.
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

function m.init(opt)
  local late = latency { perins "cpu", "function" }
  local heat = opt.heatmap and heat_map {}
  local armed = pending { "expires", key = "pointer", keep = opt.than }

  evsel("timer:hrtimer_start", function(e)
    armed:close(e.hrtimer, e)                              -- it was taken back, or is set anew
    armed:open(e.hrtimer, e, e.expires)
  end)
  local expire = evsel "timer:hrtimer_expire_entry"
  local name = expr_of("ksymbol(function)", expire, "text")
  expire:each(function(e)
    local timer = armed:close(e.hrtimer, e)
    if not timer then return end                           -- it was set before the run
    local delay = e.now - timer.expires
    if delay < 0 then delay = 0 end
    late:add(delay, e._cpu, name(e))
    if heat then heat:add(e._time, delay) end
    if opt.than and delay > opt.than then emit(timer.event, e) end
  end)
end
return m
