--- Prints events in time order as they happen.
-- With --perfetto or --flame-graph they are in that file instead. With --flame-graph, --parquet and
-- the log records of --otlp have them, too.
-- Tracepoints are printed as ftrace prints them, samples of counters and clocks as perf script.
--   perilune trace -e sched:sched_process_exec,sched:sched_process_exit
--   perilune trace -e 'signal:signal_generate/sig==9/' --json
--   perilune trace -e skb:kfree_skb --flame-graph drops
--   perilune trace -e 'sched:*,irq:*' --perfetto t.pftrace --duration 5s
local explore = require "explore"

local m = monitor {
  summary = "print events and their fields as they happen",
  group = "events", order = true, independent = true, emits = {},
  options = {
    events { "event", short = "e", required = true,
      help = "events to print: sys:name[/filter/stack/…/],…; globs are allowed" },
    text { "filter", value = "FILTER",
      help = "filter of all events: prev_prio < 120 && comm_get(prev_pid) ~ \"nginx*\"" },
    "call-graph", "flame-graph-over-time", "perfetto",
  },
}

local add ---@type function?

function m.init(opt)
  add = explore.stacks(opt, "events")
  -- A timeline would have gaps without the switches of perilune itself.
  local spec = { stack = opt.call_graph or add and "fp", hide_self = not opt.perfetto or nil }
  for _, group in ipairs(opt.event) do
    for _, selector in ipairs(group) do
      local ev = evsel(selector, spec)
      if opt.filter then ev:filter(opt.filter) end
    end
  end
end

function m.sample(e)
  if add then add(e._time, 1, e._comm, e._stack) end
  if not m.opt.perfetto or m.opt.flame_graph then emit(e) end
end
return m
