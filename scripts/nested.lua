--- Nested calls as a tree: time of each call with (total) and without (self) the calls inside it.
-- Each -e is a call: the event that begins it, then those that end it. A call that begins while
-- another one with the same key is open is nested in it. The key is -k, key= of an event, else the
-- CPU, or with -p the thread; use -k _tid for calls in which a task can sleep. alias= names a call.
-- The tree is indented by two blanks per level, also with --json. A call whose end is missing ends
-- with the call around it and is unmatched; calls inside more than 64 others are evicted.
-- Percentiles are those of a call's total. --than --detail prints all events of calls inside each
-- longer call.
--   perilune nested -e irq:softirq_entry,irq:softirq_exit \
--     -e irq:irq_handler_entry,irq:irq_handler_exit -i 1000
--   perilune nested -k _tid -e raw_syscalls:sys_enter,raw_syscalls:sys_exit \
--     -e sched:sched_switch//key=prev_pid/alias=off-CPU/,sched:sched_switch//key=next_pid/
--   perilune nested -k _tid -e uprobe:./app:parse,uretprobe:./app:parse \
--     -e uprobe:./app:read,uretprobe:./app:read --than 5ms -p 1234
local calls, delays, relation = require "calls", require "delays", require "relation"
local probes = require "probes"

local m = monitor {
  summary = "nested calls as a tree, with self and total times",
  group = "events", order = true, emits = { number { "delay_us" } },
  options = {
    events { "event", short = "e", required = true, value = "BEGIN,END",
      help = "a call: sys:name[/filter/key=…/alias=…/] of its begin, then of its ends",
      attrs = { key = expr, alias = text } },
    expr { "key", short = "k", help = "key that the events of nested calls have in common" },
    duration { "than", unit = "ns", help = "print begin and end of each longer call" },
    "detail",
  },
}

local tree ---@type perilune.calls.Tree

function m.init(opt)
  tree = calls.tree(opt.than, probes.are_uretprobes(opt.event))
  local print = delays.printer(opt)
  for call, group in ipairs(opt.event) do
    if #group < 2 then
      error(("-e %s: a call needs two events: -e BEGIN,END"):format(group[1].name), 0)
    end
    tree:call(call, group[1].attr.alias or group[1].name)
    for i = 2, #group do
      relation.watch(group[i], opt, function(e, k)
        local ended = tree:close(k, e, call)
        if ended then print(ended, e, ended.delay, k) end
      end)
    end
    relation.watch(group[1], opt, function(e, k) tree:open(k, e, call) end)
  end
end

function m.interval() return tree:report() end
return m
