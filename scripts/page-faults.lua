--- Page faults by process and function; with --address by page, with -g each one with its stack.
-- The software events also count faults of the kernel on behalf of a task. A major fault is one
-- that waited for a disk. As a source of events it emits each fault.
--   perilune page-faults -i 1000
--   perilune page-faults --address -- ./prog
--   perilune page-faults -e exceptions:page_fault_user -g -p 1234
local cpu_modes = require "cpu_modes"

local m = monitor {
  summary = "page faults by process, function and page",
  group = "memory", independent = true, emits = { text { "function" }, text { "address" } },
  options = {
    event { "event", short = "e", default = "page-faults",
      help = "page-faults, minor-faults, major-faults, exceptions:page_fault_user" },
    flag { "address", help = "a row for each page" },
    integer { "rows", help = "number of rows [default all]" },
    "call-graph", "flame-graph", "exclude-user", "exclude-kernel",
  },
}

function m.init(opt)
  local page = machine.page_size
  local ev = evsel(opt.event, {
    period = 1, stack = opt.call_graph, functions = true,
    exclude = cpu_modes.excluded(opt),
  })
  -- A tracepoint has the address as a field, a software event in the sample.
  local traced = ev.fields.address
  if opt.call_graph and not opt.as_events then ev:each(emit) return end

  local symbol = stack.format "symbol"
  local at_column = traced and { "ip", hex } or { "function", symbol }
  local page_column = opt.address and { "address", hex }
  local faults = kv { "pid", "comm", at_column, page_column, count = "faults",
    top = opt.rows }
  ev:each(function(e)
    local at = traced and e.address or e._addr
    if opt.as_events then
      emit(e, { ["function"] = symbol(e._function), address = hex(at) })
      return
    end
    if opt.address and type(at) == "number" then at = at - at % page end
    faults:add(e._pid, e._comm, traced and e.ip or e._function, at)
  end)
end
return m
