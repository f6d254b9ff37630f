--- Memory that is allocated and not freed, from any event that allocates and one that frees.
local allocations = {}

--- Returns the expression of an event's attribute, without it `field`, without that `default`.
--- Raises an error with the existing fields if none of them is available.
---@param ev perilune.Evsel
---@param attr string
---@param field string
---@param default? string
---@return string
local function source(ev, attr, field, default)
  local text = ev.attr[attr] --[[@as string?]]
  if not text and ev.fields[field] then text = field end
  text = text or default
  if text then return text end
  local names = {}
  for name in pairs(ev.fields) do names[#names + 1] = name end
  table.sort(names)
  error(("%s has no field '%s'; select one with %s=: %s"):format(ev.name, field, attr,
    table.concat(names, ", ")), 0)
end

--- Watches the event of --alloc in the watched tasks, and that of --free in all tasks. The memory
--- is the attribute ptr= of each, or its field `ptr`; the size is size=, or `bytes_alloc`. Returns
--- the live allocations by address, each with `comm`, `stack` and `bytes`, and with opt.detail its
--- event as `event`. An allocation whose free may be among lost events is `unsure`.
---@param opt perilune.Options
---@return perilune.Pending
function allocations.watch(opt)
  local a, f = opt.alloc, opt.free
  if a.name == f.name and a.filter == f.filter and a.attr.ptr == f.attr.ptr then
    error("--alloc and --free are the same event; pass the event that frees to --free", 0)
  end
  local live = pending {
    "comm", "stack", "bytes", key = "pointer", keep = opt.detail, lost = "keep",
  }
  local alloc, free = evsel(a, { stack = opt.call_graph }), evsel(f, { all_tasks = true })
  local sources = { source(alloc, "ptr", "ptr"), source(alloc, "size", "bytes_alloc", "0") }
  local of, freed = exprs_of(sources, alloc, "number"), nil
  freed = expr_of(source(free, "ptr", "ptr"), free, "number")
  alloc:each(function(e)
    local ptr, bytes = of(e)
    if ptr ~= 0 then live:open(ptr, e, e._comm, e._stack, bytes) end
  end)
  free:each(function(e) live:close(freed(e), e) end)
  return live
end

return allocations
