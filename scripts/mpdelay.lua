--- The delays between adjacent points of a path: -e A,B,C measures A => B and B => C, of each CPU or with -p of each thread.
-- A point that is passed again before the next one counts anew: the first passing is unmatched. What waited while events were lost is
-- dropped. With delay=FIELD at every point no path is followed: it shows how that field is distributed, in its own unit.
--   perilune mpdelay -e syscalls:sys_enter_nanosleep,syscalls:sys_exit_nanosleep -p 16023 -i 1000 --than 600us --perins
--   perilune mpdelay -e irq:irq_handler_entry,irq:irq_handler_exit,irq:softirq_entry -C 0 -i 1000
--   perilune mpdelay -e sched:sched_stat_runtime//delay=runtime/
local relation = require "relation"

local m = monitor {
  summary = "delays between adjacent points of a path",
  order = true,
  options = {
    events { "event", short = "e", required = true, groups = 1,
      help = "the points in their order, at least two: sys:name[/filter/key=…/delay=…/stack/], comma-separated",
      attrs = { key = expr, delay = expr } },
    duration { "than", unit = "us", help = "print both events of each longer delay" },
    "detail", "perins", "heatmap",
  },
}

--- Points that know their delay themselves.
local function told(points)
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
  if knowing == #points then return told(points) end
  if knowing > 0 then error("some points have delay= and some not; give it to all, or to none", 0) end
  if #points < 2 then error("a delay lies between two points: -e FROM,TO", 0) end
  relation.delay(stages, opt, { percentiles = false })
end
return m
