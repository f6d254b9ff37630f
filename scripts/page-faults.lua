--- Page faults: of which process, in which function, with --address for which page; with -g each one with its stack.
-- The software event counts those of the kernel on a task's behalf, too; major-faults waited for a disk.
--   perilune page-faults -i 1000
--   perilune page-faults --address -- ./prog
--   perilune page-faults -e exceptions:page_fault_user -g -p 1234
local m = monitor {
  summary = "page faults by process, function and page",
  options = {
    event { "event", short = "e", default = "page-faults", help = "page-faults, minor-faults, major-faults, exceptions:page_fault_user" },
    flag { "address", help = "a row for each page" },
    "call-graph", "flame-graph", "exclude-user", "exclude-kernel",
  },
}

function m.init(opt)
  local page = machine.page_size
  local ev = evsel(opt.event, { period = 1, stack = opt.call_graph, functions = true, exclude = { user = opt.exclude_user, kernel = opt.exclude_kernel } })
  local traced = ev.fields.address                         -- a tracepoint has fields; a counter's place is in the sample
  if opt.call_graph then ev:each(emit) return end

  local faults = kv { "pid", "comm", traced and { "ip", hex } or { "function", stack.format "symbol" },
    opt.address and { "address", hex }, count = "faults" }
  ev:each(function(e)
    local at = traced and e.address or e._addr
    if opt.address and type(at) == "number" then at = at - at % page end
    faults:add(e._pid, e._comm, traced and e.ip or e._function, at)
  end)
end
return m
