--- What was allocated and not freed since: the likeliest leaks, by stack. The longer the run, the better they tell.
-- Both events name the memory by a field `ptr`, or by the expression of ptr=; the size is size=, else `bytes_alloc` where there is
-- one. --than leaves younger allocations out. The free of an allocation that is older than a loss
-- of events may be among the lost: such allocations have a table of their own, marked as possible.
-- A second allocation at one place means that its free was not seen: unmatched. -p, -C and a
-- command choose whose allocations are shown; frees are taken from all tasks and CPUs, as the
-- kernel frees much of it elsewhere, and so cost the whole machine their records.
--   perilune kmemleak --alloc kmem:kmalloc --free kmem:kfree -g -i 10000 --than 5s
--   perilune kmemleak --alloc kprobes:alloc_percpu --free kprobes:free_percpu -m 8 -g
local m = monitor {
  summary = "memory allocated and not freed since, by stack",
  order = true,
  options = {
    event { "alloc", required = true, value = "EVENT", attrs = { ptr = expr, size = expr }, help = "allocates: with a field ptr, or ptr= and size=" },
    event { "free", required = true, value = "EVENT", attrs = { ptr = expr }, help = "frees: with a field ptr, or ptr=" },
    duration { "than", unit = "s", help = "only what is older than this" },
    choice { "weight", of = { "objects", "bytes" }, help = "what the flame graph adds up" },
    "call-graph", "flame-graph",
  },
}

local live, leaks, possible, least ---@type perilune.Pending, perilune.Kv, perilune.Kv, number

--- The expression that an event's attribute gives, or the field that is meant without it.
local function source(ev, attr, field, needed)
  local text = ev.attr[attr] or ev.fields[field] and field
  if text or not needed then return text or "0" end
  local names = {}
  for name in pairs(ev.fields) do names[#names + 1] = name end
  table.sort(names)
  error(("%s has no field '%s'; say with %s= which it is: %s"):format(ev.name, field, attr, table.concat(names, ", ")), 0)
end

function m.init(opt)
  local a, f = opt.alloc, opt.free
  if a.name == f.name and a.filter == f.filter and a.attr.ptr == f.attr.ptr then
    error("--alloc and --free are the same event, so nothing would stay; --free names the one that frees", 0)
  end
  least = opt.than or 0
  live  = pending { "comm", "stack", "bytes", key = "pointer", keep = true, lost = "keep" }
  local sums = { { "bytes", first = true }, "objects" }
  local stack = opt.call_graph and { "stack", stack_text }
  leaks    = kv { "comm", stack, sums = sums, keep = true }
  -- A flame graph is of the leaks alone.
  possible = kv { "leak", "comm", not opt.flame_graph and stack, sums = sums, keep = true }

  local alloc, free = evsel(opt.alloc, { stack = opt.call_graph }), evsel(opt.free, { everyone = true })
  local of = exprs_of({ source(alloc, "ptr", "ptr", true), source(alloc, "size", "bytes_alloc") }, alloc, "number")
  local freed = expr_of(source(free, "ptr", "ptr", true), free, "number")
  alloc:each(function(e)
    local ptr, bytes = of(e)
    if ptr ~= 0 then live:open(ptr, e, e._comm, e._stack, bytes) end
  end)
  free:each(function(e) live:close(freed(e), e) end)
end

--- What is live now: added up by stack, each told to `visit` before.
local function report(visit)
  leaks:clear()
  possible:clear()
  for _, block in live:each() do
    if now() - block.time >= least then
      local unsure = block.unsure
      if visit then visit(block.event, unsure and { leak = "possible" } or nil) end
      if unsure then possible:add("possible", block.comm, block.stack, block.bytes, 1)
      else leaks:add(block.comm, block.stack, block.bytes, 1) end
    end
  end
  return leaks, possible
end

function m.interval() return report() end
function m.deinit() return report(emit) end
return m
