--- A prompt for live events: lines of Lua open, count, time and draw them.
--   perilune repl
--   perilune repl begin.lua
--   echo 'count("sched:sched_switch", "next_comm")' | perilune repl
local m = monitor {
  summary = "prompt to open, count, time and draw events live",
  options = {
    text { "file", value = "FILE.lua", positional = true, help = "run this file's lines first" },
  },
}

function m.init() end
return m
