--- Lua from the command line over any event: opens, counts, times and draws, without a file.
--   perilune eval 'probe("sched:sched_process_exec", function(e) emit { pid = e._pid, file = e.filename } end)'
--   perilune eval 'by = kv { "comm" } probe("sched:sched_switch", function(e) by:add(e.prev_comm) end)' --duration 5s
--   perilune eval -e signal:signal_generate 'if e.sig == 9 then emit(e) end'
--   perilune eval --begin 'by = kv { "comm" }' -e sched:sched_switch 'by:add(e.prev_comm)'
local m = monitor {
  summary = "run a line of Lua over events",
  order = true,                                            -- what it prints is read from above
  options = {
    events { "event", short = "e", help = "the code is what to do with each of these events, which is `e`" },
    text { "begin", value = "CODE", help = "with -e: run this first, to make tables and the like" },
    text { "code", value = "CODE", positional = true, required = true, help = "what to run; without -e it opens events itself, by probe" },
    "call-graph", "flame-graph",
  },
}

-- All of it shares its globals, and no other script sees them.
local place = scope()
local function compiled(text)
  local f, why = load(text, "@eval", "t", place)
  return f or error(why, 0)
end

function m.init(opt)
  if not opt.event then return compiled(opt.code)() end
  if opt.begin then compiled(opt.begin)() end
  local handler = compiled("return function(e) " .. opt.code .. "\nend")()
  for _, group in ipairs(opt.event) do
    for _, selector in ipairs(group) do evsel(selector, { stack = opt.call_graph }, handler) end
  end
end

function m.sample(e) emit(e) end
return m
