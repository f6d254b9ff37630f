--- Counts the call chains that lead to an event, such as a function, the most frequent first.
-- --sum adds up an expression over the fields of the event instead, as bytes. -k adds a column:
-- the same chain has a row for each value. The table, JSON and CSV contain the first --rows chains,
-- the flame graph contains all.
-- A stack is a list of functions, the innermost first. A program or library that was built without
-- frame pointers needs --call-graph dwarf.
--   perilune stackcount -e kprobe:submit_bio -i 1000
--   perilune stackcount -e skb:kfree_skb -k _comm
--   perilune stackcount -e kmem:mm_page_alloc --sum '4096<<order'
--   perilune stackcount -e uprobe:libc.so.6:malloc --sum arg1 -- ls
local keys = require "key"

local m = monitor {
  summary = "call chains that lead to an event, by number or by a sum",
  group = "events", order = false, independent = true,
  options = {
    event { "event", short = "e", required = true, value = "EVENT",
      help = "an event: sys:name, uprobe:FILE:FUNCTION, kprobe:FUNCTION, page-faults, …" },
    expr { "sum", help = "sum of this expression, instead of the number of events" },
    expr { "key", short = "k", help = "a row for each value of this expression as well" },
    integer { "rows", default = 20, help = "number of chains in the table" },
    "call-graph", "flame-graph",
  },
}

function m.init(opt)
  local ev = evsel(opt.event, { stack = opt.call_graph or true })
  local sums = { { opt.sum or "count", first = true } }
  local values = { opt.sum or "1" }
  keys.sums(values, ev, sums, 1)
  local _, as = expr_of(opt.key or "0", ev)
  local rows = kv { opt.key and { opt.key, as = as }, { "stack", stack_text }, sums = sums,
    top = opt.rows, weight = opt.sum or nil }
  rows:count(ev, { key = opt.key and { opt.key, "_stack" } or "_stack", sums = values })
end
return m
