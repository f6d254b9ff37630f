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
--   perilune nested -k _tid -e uprobes:parse,uprobes:parse_ret \
--     -e uprobes:read,uprobes:read_ret --than 5ms -p 1234
local calls, longer, relation = require "calls", require "longer", require "relation"

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
  tree = calls.tree()
  local print = longer.printer(opt.than)
  if opt.than and opt.detail then
    local detail = relation.printer(opt.detail)
    function print(call, e, total, k)
      if total > opt.than then detail(call, e, k, { { "delay_us", total / 1e3 } }) end
    end
  end
  local open = pending { "call", "node", "inner", key = "any", nested = true, keep = opt.than }

  --- Sets the handler of an event, which also gets the key. Ignores the key 0 of threads: it is the
  --- idle task of every CPU.
  local function watch(s, handler)
    local text, none, task = relation.key(s, opt)
    local ev = evsel(s, { task = per_thread() and task or nil })
    local key = expr_of(text, ev)
    ev:each(function(e)
      local k = key(e)
      if k ~= none then handler(e, k) end
    end)
  end

  for call, group in ipairs(opt.event) do
    if #group < 2 then
      error(("-e %s: a call needs two events: -e BEGIN,END"):format(group[1].name), 0)
    end
    tree:call(call, group[1].attr.alias or group[1].name)
    for i = 2, #group do
      watch(group[i], function(e, k)
        local ended = open:close(k, e, call)
        if not ended then return end
        local total, node, outer = ended.delay, ended.node, open:get(k)
        if outer then outer.inner = outer.inner + total end
        tree:add(node, total, total - ended.inner)
        print(ended, e, total, k)
      end)
    end
    watch(group[1], function(e, k)
      local outer = open:get(k)
      open:open(k, e, call, tree:inside(outer and outer.node or 0, call), 0)
    end)
  end
end

function m.interval() return tree:report() end
return m
