--- Prints events in time order as they happen.
-- Tracepoints are printed as ftrace prints them, samples of counters and clocks as perf script.
--   perilune trace -e sched:sched_process_exec,sched:sched_process_exit
--   perilune trace -e 'signal:signal_generate/sig==9/' --json
--   perilune trace -e skb:kfree_skb --flame-graph drops
local m = monitor {
  summary = "print events and their fields as they happen",
  group = "events", order = true, independent = true, emits = {},
  options = {
    events { "event", short = "e", required = true,
      help = "events to print: sys:name[/filter/stack/…/],…; globs are allowed" },
    text { "filter", value = "FILTER",
      help = "filter of all events: prev_prio < 120 && comm_get(prev_pid) ~ \"nginx*\"" },
    "call-graph", "flame-graph",
  },
}

function m.init(opt)
  for _, group in ipairs(opt.event) do
    for _, selector in ipairs(group) do
      local ev = evsel(selector, { stack = opt.call_graph, hide_self = true })
      if opt.filter then ev:filter(opt.filter) end
    end
  end
end

function m.sample(e) emit(e) end
return m
