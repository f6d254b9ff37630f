--- Delays between adjacent points of a path: -e A,B,C measures A => B and B => C.
-- Points are related on each CPU, or with -p in each thread. If a point is passed again before the
-- next one, the delay starts again there and the first passing is unmatched. A delay that is open
-- while events are lost is dropped.
-- With delay=FIELD at every point, shows the distribution of that field instead, in its own unit.
--   perilune mpdelay -e syscalls:sys_enter_nanosleep,syscalls:sys_exit_nanosleep -p 16023 -i 1000
--   perilune mpdelay -e irq:irq_handler_entry,irq:irq_handler_exit,irq:softirq_entry --than 600us
--   perilune mpdelay -e sched:sched_stat_runtime//delay=runtime/
local relation = require "relation"

local m = monitor {
  summary = "delays between adjacent points of a path",
  group = "events", order = true, emits = { number { "delay_us" } },
  options = {
    events { "event", short = "e", required = true, groups = 1,
      help = "points in order, at least two: sys:name[/filter/key=…/delay=…/stack/],…",
      attrs = { key = expr, delay = expr } },
    duration { "than", unit = "us", help = "print both events of each longer delay" },
    "detail", "perins", "heatmap",
  },
}

--- Draws the distribution of the delay that is a field of each point.
local function spread_of(points)
  for _, s in ipairs(points) do
    local spread = hist.log2 { perins(), title = s.name .. " " .. s.attr.delay }
    local ev = evsel(s)
    local delay = expr_of(s.attr.delay, ev, "number")
    ev:each(function(e) spread:add(delay(e), e._instance) end)
  end
end

function m.init(opt)
  local points, stages, knowing = opt.event[1], {}, 0
  for i, s in ipairs(points) do
    stages[i] = { s }
    if s.attr.delay then knowing = knowing + 1 end
  end
  if knowing == #points then return spread_of(points) end
  if knowing > 0 then error("-e: use delay= at every point, or at none", 0) end
  if #points < 2 then error("-e: a delay needs two points: FROM,TO", 0) end
  relation.delay(stages, opt, { percentiles = false })
end
return m
