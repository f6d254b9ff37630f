--- Runs Lua from the command line over any events, without a script file.
-- Without -e the code runs once and opens events itself with probe. With -e it runs for each event.
--   perilune eval 'probe("sched:sched_process_exec", function(e) emit { file = e.filename } end)'
--   perilune eval --begin 'by = kv { "comm" }' -e sched:sched_switch 'by:add(e.prev_comm)'
--   perilune eval -e signal:signal_generate 'if e.sig == 9 then emit(e) end'
local m = monitor {
  summary = "run a line of Lua over events",
  group = "events",
  order = true,                                            -- events are printed in time order
  options = {
    events { "event", short = "e", help = "run the code for each of these events, as `e`" },
    text { "begin", value = "CODE", help = "with -e: run this once before, e.g. to create tables" },
    text { "code", value = "CODE", positional = true, required = true,
      help = "code to run; without -e it opens events itself with probe" },
    "call-graph", "flame-graph",
  },
}

-- The environment that --begin and the code share; other scripts do not see its globals.
local place = scope()
local function compiled(text)
  local f, why = load(text, "@eval", "t", place)
  return f or error(why, 0)
end

-- The first word of programs of bpftrace.
local probes = " BEGIN END tracepoint t kprobe k kretprobe kr uprobe u uretprobe ur usdt "
  .. "interval i profile p hardware h software s kfunc fentry kretfunc fexit rawtracepoint rt "

function m.init(opt)
  local word = opt.code:match "^%s*(%a+)%s*{" or opt.code:match "^%s*(%a+):.*{"
  if word and probes:find(" " .. word .. " ", 1, true) then
    error("the code is Lua, not bpftrace: perilune eval 'probe(\"EVENT\", function(e) … end)'; "
      .. "see docs/one-liners.md", 0)
  end
  if not opt.event then return compiled(opt.code)() end
  if opt.begin then compiled(opt.begin)() end
  local handler = compiled("return function(e) " .. opt.code .. "\nend")()
  for _, group in ipairs(opt.event) do
    for _, selector in ipairs(group) do evsel(selector, { stack = opt.call_graph }, handler) end
  end
end

function m.sample(e) emit(e) end
return m
