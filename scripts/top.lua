--- Counts and sums events per key, sorted: a GROUP BY over any events.
-- A selector's key= tells rows apart, top-by= and top-add= are summed (else the event is counted), comm= names the row;
-- alias= is the title of the first sum, printkey= how the key is shown. Rows sort by top-by=, then by the other sums.
-- The key _stack tells rows apart by the stack of the event; --flame-graph draws them, and needs no other key.
--   perilune top -e sched:sched_switch -k prev_pid
--   perilune top -e sched:sched_switch -k prev_comm
--   perilune top -e skb:kfree_skb -k _stack
--   perilune top -e 'sched:sched_switch//key=prev_pid/comm=prev_comm/,sched:sched_stat_runtime//key=pid/top-by=runtime/'
local keys = require "key"

local m = monitor {
  summary = "count and sum events per key, sorted",
  order = false, every = "1s", screen = true,
  options = {
    events { "event", short = "e", required = true, groups = 1, help = "what to count: sys:name[/filter/key=…/top-by=…/top-add=…/comm=…/alias=…/printkey=…/], comma-separated",
      attrs = { key = expr, printkey = expr, ["top-by"] = expr, ["top-add"] = expr, comm = expr, alias = text } },
    expr { "key", short = "k", help = "key of every event; without it, the thread" },
    flag { "only-comm", help = "one row a name, without the key" }, "flame-graph",
  },
}

--- What one selector counts: its value columns and their sources.
local function columns_of(s)
  local columns, values = {}, {} ---@type table[], string[]
  for _, attr in ipairs(s.attr) do
    if attr[1] == "top-by" or attr[1] == "top-add" then
      local title = #values == 0 and s.attr.alias or attr[2]
      values[#values + 1], columns[#columns + 1] = attr[2], { title:upper(), first = attr[1] == "top-by" }
    end
  end
  if #values > 0 then return columns, values end
  return { { (s.attr.alias or s.name:match ":(.*)" or s.name):upper() } }, { "1" }
end

function m.init(opt)
  local plan, selectors, columns, keyed, key_title, printkey, name_title = {}, opt.event[1], {}, 0, nil, nil, nil ---@type table[]
  for i, s in ipairs(selectors) do
    local key, own, values = s.attr.key or opt.key or opt.flame_graph and "_stack", columns_of(s)
    plan[i] = { key = key, first = #columns + 1, values = values, name = s.attr.comm }
    for _, c in ipairs(own) do columns[#columns + 1] = c end
    key_title, printkey, name_title = key_title or key, printkey or s.attr.printkey, name_title or s.attr.comm
    keyed = keyed + (key and 1 or 0)
  end
  local by_stack = key_title == "_stack"
  if opt.flame_graph and not by_stack then error("--flame-graph draws stacks; leave other keys away, or write -k _stack", 0) end
  for i, s in ipairs(selectors) do
    if by_stack ~= (plan[i].key == "_stack") then error(s.name .. ": a stack is the key of all events or of none", 0) end
    if keyed > 0 and not plan[i].key and not opt.only_comm then
      error(s.name .. ": some events have a key and this has none; add key= to it, as in " .. s.name .. "//key=pid/", 0)
    end
  end
  local named = name_title or keyed < #selectors
  if opt.only_comm and not named then error("--only-comm needs a name: add comm= to an event", 0) end

  for i, p in ipairs(plan) do
    p.ev, p.key = evsel(selectors[i], { stack = by_stack }), p.key or "_tid"
    p.read = keys.sums(p.values, p.ev, columns, p.first)
  end
  local key_of, as = keys.column(plan, printkey and "number" or nil)
  local key_column = by_stack and { "STACK", stack_text } or { (key_title or "pid"):upper(), printkey and expr_of(printkey, "key"), as = as }
  local rows = kv { key_column, sums = columns, style = "top",
    hide_key = opt.only_comm, name = named and { (name_title or "comm"):upper() } }

  for i, p in ipairs(plan) do
    local name = p.name or (keyed == 0 or opt.only_comm) and "_comm"
    local label = name and expr_of(name, p.ev, "text")
    local key, values, add = opt.only_comm and label or key_of[i], p.read, rows:adding(p.first, #p.values)
    p.ev:each(function(e)
      local k = key(e)
      if add(k, values(e)) and label then rows:name(k, label(e)) end
    end)
  end
end
return m
