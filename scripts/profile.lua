--- Samples what the CPUs run: shares of processes and of their functions; with -g each sample.
-- Shares are relative to the samples; each table adds up to 100 %. Code without symbols is shown by
-- the name of its file. Processes with the same name share a row if each is too light for its own.
-- Idle CPUs are not sampled, or with --idle counted apart: the shares of the tasks stay those of
-- the running time. --by thread and --by cpu make the first table one of threads or CPUs.
-- Use 99 or 997 samples per second: 100 and 1000 stay in step with work that repeats as often.
-- Without -e, takes the first event that opens: cycles:ppp, cycles:pp, cycles:p, cycles, or
-- cpu-clock, a timer. --than prints the samples of a CPU from when its share of a second is reached
-- until that second ends; it takes ref-cycles first.
-- -F 0 counts the time that was run: of a CPU by its modes in /proc/stat or ref-cycles, of a thread
-- (-p) by ref-cycles or task-clock, with the threads and processes that it starts.
-- As a source of events it emits each sample, with --than those of a busy CPU.
--   perilune profile -F 997 -- make
--   perilune profile -F 99 -C 0 -g --exclude-user --than 30
--   perilune profile --by cpu --idle
--   perilune profile -F 0 -i 1000
--   perilune profile -F 997 -g --flame-graph cpu -i 600000
--   perilune profile -F 997 --heatmap cpu.html
local explore, share = require "explore", require "share"

local m = monitor {
  summary = "sample what the CPUs run: shares of processes, stacks, flame graphs",
  group = "cpu", emits = { text { "function" } },
  idle = "a task is sampled after it ran for a period, 10 ms at -F 100; try -F 9999",
  options = {
    event { "event", short = "e", help = "sample this event" },
    "freq", "period", "call-graph", "flame-graph-over-time", "perfetto",
    "exclude-user", "exclude-kernel", "exclude-guest", "guest",
    percent { "than", help = "only print samples, with stacks, while a CPU is busier than this" },
    choice { "by", of = { "process", "thread", "cpu" },
      help = "rows of the first table; default: process" },
    flag { "idle", help = "also sample idle CPUs, and count them apart" },
    integer { "rows", help = "number of functions shown; the others are one row; default: 12" },
  },
}

function m.init(opt)
  if opt.freq == 0 then
    m.interval = share.counted(opt)
    return
  end
  local ev, busy = share.sampled(opt), nil
  if opt.than then busy = share.busier(ev, opt.than) end
  local printed, symbol = opt.call_graph or opt.than or opt.as_events, stack.format "symbol"
  local samples, add = not printed and share.table(ev, opt), explore.stacks(opt)
  ev:each(function(e)
    if busy and not busy(e) then return end
    if add and e._tid ~= 0 then add(e._time, 1, e._comm, e._stack) end
    if opt.as_events then emit(e, { ["function"] = symbol(e._function) })
    elseif samples then samples:add(e)
    elseif not opt.idle or e._tid ~= 0 then emit(e) end
  end)
  function m.interval()
    if samples then return samples:report() end
  end
end
return m
