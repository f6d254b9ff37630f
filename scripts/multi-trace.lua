--- Relates events by key: -e A,B -e C -e D follows A,B => C => D and measures each pair.
-- An end belongs to the last start with its key: -k for all events, key= for one, else the CPU, or with -p the thread. A start that is
-- replaced by another is unmatched; one that waited while events were lost is dropped (unsafe), as is one whose thread ended. What
-- --impl says becomes of the pairs: `delay` how long they took, `pair` how many events have a partner, `kmemprof` memory
-- allocated and freed (ptr=, size=), `syscalls` calls by name and their errors, of raw_syscalls:sys_enter and sys_exit.
-- With -p and a command only events of those tasks are taken in: an end that an interrupt or
-- another task makes, such as that of a request to a disk, takes -a.
-- --detail prints all events between the two of a longer pair, each with its distance from the first: the task in front of an event is
-- the one that its CPU was running. -1ms,+500us adds what came so long before and after, samecpu samepid sametid samekey leave out
-- what has nothing in common with either of the two. An event that is `untraced` belongs to no pair, and is opened for --detail only.
--   perilune multi-trace -e irq:softirq_entry -e irq:softirq_exit -i 1000
--   perilune multi-trace -e 'sched:sched_wakeup,sched:sched_switch/prev_state==0||prev_state==256/key=prev_pid/' -e sched:sched_switch//key=next_pid/ -k pid
--   perilune multi-trace -e sched:sched_wakeup -e sched:sched_switch//key=next_pid/,irq:softirq_entry//untraced/ -k pid --than 4ms --detail=-100us,samecpu
--   perilune multi-trace -e kmem:kmalloc -e kmem:kfree --impl kmemprof
local relation = require "relation"

local m = monitor {
  summary = "relate events by key: delay, pair, kmemprof, syscalls",
  order = true,
  options = {
    events { "event", short = "e", required = true, groups = "2..",
      help = "the events of a stage: sys:name[/filter/key=…/stack/untraced/…], comma-separated; once for each stage",
      attrs = { key = expr, untraced = flag, ptr = expr, size = expr } },
    expr { "key", short = "k", help = "what the events of a series have in common" },
    choice { "impl", of = { "delay", "pair", "kmemprof", "syscalls" }, default = "delay", help = "what becomes of the pairs" },
    duration { "than", unit = "ns", help = "print both events of each longer pair" },
    duration { "only-than", unit = "ns", help = "the same, and count no other pair" },
    duration { "max-age", unit = "s", help = "give a start up that has no end after this long" },
    flag { "histogram", help = "of delay, draw the distribution of each pair, too" },
    "detail", "perins", "heatmap",
  },
}

function m.init(opt)
  if #opt.event < 2 then error("two stages at least make a relation: -e FROM -e TO", 0) end
  if opt.impl == "syscalls" then
    for i, name in ipairs { "raw_syscalls:sys_enter", "raw_syscalls:sys_exit" } do
      if #opt.event ~= 2 or #opt.event[i] ~= 1 or opt.event[i][1].name ~= name then
        error("--impl syscalls takes -e raw_syscalls:sys_enter -e raw_syscalls:sys_exit", 0)
      end
    end
  end
  relation[opt.impl](opt.event, opt)
end
return m
