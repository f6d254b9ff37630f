--- Relates events by key: -e A,B -e C -e D follows A,B => C => D and measures each pair.
-- An end belongs to the last start with the same key. The key is -k for all events, key= for one,
-- else the CPU, or with -p the thread. A start that is replaced by another one is unmatched. A
-- start that waits while events are lost is dropped (unsafe), as is one whose thread ends. Calls of
-- a recursive function replace each other's starts: use `nested` for those.
-- --impl selects the result: `delay` how long pairs took, `pair` how many events have a partner,
-- `kmemprof` memory allocated and freed (ptr=, size=), `syscalls` calls by name and their errors,
-- from raw_syscalls:sys_enter and sys_exit.
-- Starts that have no end at the end of the run are in a table of their own, the oldest 20.
-- With -p or a COMMAND only events of those tasks are used: an end that an interrupt or another
-- task raises, such as that of a disk request, needs -a.
-- --detail prints all events between the two of a longer pair, each with its offset from the first.
-- The task in front of an event is the one that its CPU was running. -1ms,+500us adds events that
-- long before and after; samecpu samepid sametid samekey keep only events that share it with one
-- of the two. `untraced` events belong to no pair and are opened for --detail only.
--   perilune multi-trace -e irq:softirq_entry -e irq:softirq_exit -i 1000
--   perilune multi-trace -k pid \
--     -e 'sched:sched_wakeup,sched:sched_switch/prev_state==0||prev_state==256/key=prev_pid/' \
--     -e sched:sched_switch//key=next_pid/
--   perilune multi-trace -k pid --than 4ms --detail=-100us,samecpu -e sched:sched_wakeup \
--     -e sched:sched_switch//key=next_pid/,irq:softirq_entry//untraced/
--   perilune multi-trace -e kmem:kmalloc -e kmem:kfree --impl kmemprof
local relation = require "relation"

local m = monitor {
  summary = "relate events by key: delay, pair, kmemprof, syscalls",
  group = "events", order = true, emits = { number { "delay_us" } },
  options = {
    events { "event", short = "e", required = true, groups = "2..",
      help = "events of a stage, in order: sys:name[/filter/key=…/stack/untraced/…],…",
      attrs = { key = expr, untraced = flag, ptr = expr, size = expr } },
    expr { "key", short = "k", help = "key that related events have in common" },
    choice { "impl", of = { "delay", "pair", "kmemprof", "syscalls" }, default = "delay",
      help = "result to compute from the pairs" },
    duration { "than", unit = "ns", help = "print both events of each longer pair" },
    duration { "only-than", unit = "ns", help = "like --than, and do not count shorter pairs" },
    duration { "max-age", unit = "s", help = "drop a start that has no end after this time" },
    flag { "histogram", help = "with --impl delay: also draw a histogram of each pair" },
    "detail", "perins", "heatmap", "perfetto",
  },
}

local results

function m.init(opt)
  if #opt.event < 2 then error("-e: a relation needs two stages: -e FROM -e TO", 0) end
  if opt.impl == "syscalls" then
    if opt.is_source then error("--impl syscalls emits no events; use syscalls/OPTIONS/", 0) end
    for i, name in ipairs { "raw_syscalls:sys_enter", "raw_syscalls:sys_exit" } do
      if #opt.event ~= 2 or #opt.event[i] ~= 1 or opt.event[i][1].name ~= name then
        error("--impl syscalls takes -e raw_syscalls:sys_enter -e raw_syscalls:sys_exit", 0)
      end
    end
  end
  if not opt.detail then relation.note_untraced(opt.event) end
  results = relation[opt.impl](opt.event, opt)
end

function m.deinit() return results() end
return m
