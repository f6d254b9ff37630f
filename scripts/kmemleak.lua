--- What was allocated and not freed since: the likeliest leaks, by stack. The longer the run, the better they tell.
-- Both events name the memory by a field `ptr`, or by the expression of ptr=; the size is size=, else `bytes_alloc` where there is
-- one. --than leaves younger allocations out. What was open while events were lost is no leak for sure: dropped, and counted
-- as unsafe; a second allocation at one place means that its free was not seen: unmatched. -p, -C and a command choose whose allocations
-- are told; frees are taken from all tasks and CPUs, as the kernel frees much of it elsewhere, and so cost the whole machine their
-- records.
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

local live, leaks, least ---@type perilune.Pending, perilune.Kv, number

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
  live  = pending { "comm", "stack", "bytes", key = "pointer", keep = true }
  leaks = kv { "comm", opt.call_graph and { "stack", stack_text }, sums = { { "bytes", first = true }, "objects" }, keep = true }

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
  for _, block in live:each() do
    if now() - block.time >= least then
      if visit then visit(block.event) end
      leaks:add(block.comm, block.stack, block.bytes, 1)
    end
  end
  return leaks
end

function m.interval() return report() end
function m.deinit() return report(emit) end
return m
