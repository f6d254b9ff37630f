--- Memory that was allocated and not freed since, by stack: likely leaks. Longer runs find more.
-- The memory is the event's field `ptr`, or the expression of ptr=. The size is size=, else
-- `bytes_alloc` if the event has it. --than hides younger allocations. The table has a row for each
-- stack (-g); --detail prints each allocation as well, at the end.
-- The free of an allocation that is older than a loss of events may be among the lost events: such
-- allocations are listed in a separate table, as possible. A second allocation at an address means
-- that the free was not seen: it counts as unmatched.
-- -p, -C and a COMMAND select allocations. Frees are taken from all tasks and CPUs, because the
-- kernel frees much memory in other tasks; their overhead therefore affects the whole machine.
--   perilune kmemleak --alloc kmem:kmalloc --free kmem:kfree -g -i 10000 --than 5s
--   perilune kmemleak --alloc kprobes:alloc_percpu --free kprobes:free_percpu -m 8 -g
local m = monitor {
  summary = "memory allocated and not freed since, by stack",
  group = "memory", order = true,
  options = {
    event { "alloc", required = true, value = "EVENT", attrs = { ptr = expr, size = expr },
      help = "event that allocates; has a field ptr, or ptr= and size=" },
    event { "free", required = true, value = "EVENT", attrs = { ptr = expr },
      help = "event that frees; has a field ptr, or ptr=" },
    duration { "than", unit = "s", help = "only allocations older than this" },
    flag { "detail", help = "also print each allocation that was not freed, as its event" },
    choice { "weight", of = { "objects", "bytes" }, help = "weight of the flame graph" },
    "call-graph", "flame-graph",
  },
}

local live, leaks, possible, least ---@type perilune.Pending, perilune.Kv, perilune.Kv, number

--- Returns the expression of an event's attribute, or without the attribute its default field.
local function source(ev, attr, field, needed)
  local text = ev.attr[attr] or ev.fields[field] and field
  if text or not needed then return text or "0" end
  local names = {}
  for name in pairs(ev.fields) do names[#names + 1] = name end
  table.sort(names)
  error(("%s has no field '%s'; select one with %s=: %s"):format(ev.name, field, attr,
    table.concat(names, ", ")), 0)
end

function m.init(opt)
  local a, f = opt.alloc, opt.free
  if a.name == f.name and a.filter == f.filter and a.attr.ptr == f.attr.ptr then
    error("--alloc and --free are the same event; pass the event that frees to --free", 0)
  end
  least = opt.than or 0
  live = pending { "comm", "stack", "bytes", key = "pointer", keep = true, lost = "keep" }
  local sums, stack = { { "bytes", first = true }, "objects" },
    opt.call_graph and { "stack", stack_text }
  leaks    = kv { "comm", stack, sums = sums, keep = true }
  -- A flame graph contains the certain leaks only.
  possible = kv { "leak", "comm", not opt.flame_graph and stack, sums = sums, keep = true }

  local alloc, free = evsel(a, { stack = opt.call_graph }), evsel(f, { all_tasks = true })
  local of = exprs_of({ source(alloc, "ptr", "ptr", true), source(alloc, "size", "bytes_alloc") },
    alloc, "number")
  local freed = expr_of(source(free, "ptr", "ptr", true), free, "number")
  alloc:each(function(e)
    local ptr, bytes = of(e)
    if ptr ~= 0 then live:open(ptr, e, e._comm, e._stack, bytes) end
  end)
  free:each(function(e) live:close(freed(e), e) end)
end

--- Adds up the live allocations by stack, and calls `visit` for each.
local function report(visit)
  leaks:clear()
  possible:clear()
  for _, block in live:each() do
    if now() - block.time >= least then
      if visit then visit(block.event, block.unsure and { leak = "possible" } or nil) end
      if block.unsure then possible:add("possible", block.comm, block.stack, block.bytes, 1)
      else leaks:add(block.comm, block.stack, block.bytes, 1) end
    end
  end
  return leaks, possible
end

function m.interval() return report() end
function m.deinit() return report(m.opt.detail and emit) end
return m
