--- A prompt over live events: lines of Lua that open, count, time and draw them while they come.
--   perilune repl
--   perilune repl begin.lua
--   echo 'count("sched:sched_switch", "next_comm")' | perilune repl
local m = monitor {
  summary = "a prompt: open, count, time and draw events while they come",
  options = { text { "file", value = "FILE.lua", positional = true, help = "run this file's lines first" } },
}

function m.init() end
return m
