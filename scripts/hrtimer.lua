--- Prints what a CPU runs when a condition on the counts of events holds, checked by a timer.
-- The timer fires on each CPU every --tick; the counts are those of the events on that CPU since
-- its previous tick. A name is that of the event after the colon, or its alias=. Each tick for
-- which the condition holds is printed with the counts, with -g also with its stack; without a
-- condition all are printed. Ticks of idle CPUs are included. A tick that is late is a longer
-- window.
--   perilune hrtimer -e sched:sched_switch,sched:sched_wakeup --tick 50ms -g \
--     'sched_switch == 0 && sched_wakeup > 0'
--   perilune hrtimer -e irq_vectors:local_timer_entry//alias=ticks/ --tick 100ms 'ticks < 10'
local condition, flat = require "condition", require "flat"

local m = monitor {
  summary = "what runs when counts of events meet a condition",
  group = "events", order = true, whole_cpus = true,
  options = {
    events { "event", short = "e", required = true,
      help = "events to count: sys:name[/filter/alias=…/],…", attrs = { alias = text } },
    duration { "tick", unit = "ms", least = "10us", default = "10ms",
      help = "period of the timer" },
    text { "condition", value = "CONDITION", positional = true,
      help = "condition on the counts since the previous tick: sched_switch == 0" },
    "call-graph",
  },
}

function m.init(opt)
  local selectors = flat.selectors(opt.event)
  local names, counts = condition.names(selectors), {}
  for i, s in ipairs(selectors) do
    local count = per_cpu(0)
    counts[i] = count
    evsel(s, function(e) count[e._cpu] = count[e._cpu] + 1 end)
  end
  local holds = opt.condition and condition.of(opt.condition, names)
  local before, values = per_cpu(-1), {}
  evsel("cpu-clock", { period = opt.tick, stack = opt.call_graph }, function(e)
    local cpu = e._cpu
    for i, count in ipairs(counts) do values[i], count[cpu] = count[cpu], 0 end
    local first = before[cpu] < 0
    local window = e._time - before[cpu]
    before[cpu] = e._time
    if first or holds and not holds(values) then return end
    local shown = { window_us = window / 1e3 }
    for i, name in ipairs(names) do shown[name] = values[i] end
    emit(e, shown)
  end)
end
return m
