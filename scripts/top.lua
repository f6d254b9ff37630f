--- Counts and sums events per key, sorted: a GROUP BY over any events.
-- Attributes of a selector: key= is the key of the rows, top-by= and top-add= are summed (without
-- them the event is counted), comm= names the row, alias= is the title of the first sum, printkey=
-- formats the key. Rows are sorted by top-by=, then by the other sums.
-- The kernel counts where it can, without records; --where user counts from records.
-- With the key _stack each stack is a row; --flame-graph draws them and needs no other key.
--   perilune top -e sched:sched_switch -k prev_pid
--   perilune top -e sched:sched_switch -k prev_comm
--   perilune top -e skb:kfree_skb -k _stack
--   perilune top \
--     -e sched:sched_switch//key=prev_pid/,sched:sched_stat_runtime//key=pid/top-by=runtime/
local keys = require "key"

local m = monitor {
  summary = "count and sum events per key, sorted",
  group = "events",
  order = false, every = "1s", screen = true, independent = true,
  options = {
    events { "event", short = "e", required = true, groups = 1,
      help = "events: sys:name[/filter/key=…/top-by=…/top-add=…/comm=…/alias=…/printkey=…/],…",
      attrs = { key = expr, printkey = expr, ["top-by"] = expr, ["top-add"] = expr, comm = expr,
        alias = text } },
    expr { "key", short = "k", help = "key of every event; without it, the thread" },
    flag { "only-comm", help = "one row per name, without the key" }, "flame-graph",
  },
}

function m.init(opt)
  local selectors = opt.event[1]
  local plan, columns, by_stack = keys.plan(selectors, opt)
  for i, p in ipairs(plan) do
    p.ev, p.key = evsel(selectors[i], { stack = by_stack }), p.key or "_tid"
    keys.sums(p.values, p.ev, columns, p.first)
  end
  local _, as, differ = keys.column(plan)
  if plan.printkey and as == "text" then
    error("printkey= formats a number, and the key is text; omit printkey=", 0)
  end
  local shown = plan.printkey and expr_of(plan.printkey, "key")
  local key_column = by_stack and { "STACK", stack_text }
    or { (plan.title or "pid"):upper(), shown, as = as }
  local rows = kv { key_column, sums = columns, style = "top",
    hide_key = opt.only_comm, name = plan.named and { (plan.name or "comm"):upper() } }

  for _, p in ipairs(plan) do
    local name = p.name or (plan.keyed == 0 or opt.only_comm) and "_comm" or nil
    rows:count(p.ev, { key = opt.only_comm and name or p.key, sums = p.values, first = p.first,
      name = name, mixed = differ })
  end
end
return m
