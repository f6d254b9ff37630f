--- Counts and sums events per key, sorted: a GROUP BY over any events.
--   perilune top -e sched:sched_switch -k prev_pid
--   perilune top -e 'sched:sched_switch//key=prev_pid/comm=prev_comm/,sched:sched_stat_runtime//key=pid/top-by=runtime/'
local m = monitor {
  summary = "count and sum events per key, sorted",
  order = false, every = "1s",
  options = {
    events { "event", short = "e", required = true, groups = 1, help = "what to count: sys:name[/filter/key=…/top-by=…/comm=…/], comma-separated",
      attrs = { key = expr, printkey = expr, ["top-by"] = expr, ["top-add"] = expr, comm = expr, alias = text } },
    expr { "key", short = "k", help = "key of every event; without it, the thread" },
    flag { "only-comm", help = "one row a name, without the key" },
  },
}

--- What one selector counts: its value columns and their sources.
local function columns_of(s)
  local columns, values = {}, {}
  for _, attr in ipairs(s.attr) do
    if attr[1] == "top-by" or attr[1] == "top-add" then
      local title = #values == 0 and s.attr.alias or attr[2]
      values[#values + 1] = attr[2]
      columns[#columns + 1] = { title:upper(), first = attr[1] == "top-by" }
    end
  end
  if #values == 0 then
    values[1] = "1"
    columns[1] = { (s.attr.alias or s.name:match ":(.*)" or s.name):upper() }
  end
  return columns, values
end

function m.init(opt)
  local selectors, columns, plan = opt.event[1], {}, {}
  local keyed, key_title, name_title
  for i, s in ipairs(selectors) do
    local key, own, values = s.attr.key or opt.key, columns_of(s)
    plan[i] = { key = key, first = #columns + 1, values = values, name = s.attr.comm }
    for _, c in ipairs(own) do columns[#columns + 1] = c end
    key_title, name_title = key_title or key, name_title or s.attr.comm
    keyed = (keyed or 0) + (key and 1 or 0)
  end
  for i, s in ipairs(selectors) do
    if keyed > 0 and not plan[i].key and not opt.only_comm then
      error(s.name .. ": some events have a key and this has none; add key= to it, as in " .. s.name .. "//key=pid/", 0)
    end
  end
  local named = name_title or keyed == 0
  if opt.only_comm and not named then error("--only-comm needs a name: add comm= to an event", 0) end

  local rows = kv { { (key_title or "pid"):upper() }, sums = columns, style = "top", hide_key = opt.only_comm,
    name = named and { (name_title or "comm"):upper() } }

  for i, s in ipairs(selectors) do
    local p, ev = plan[i], evsel(s)
    local name = p.name or (keyed == 0 or opt.only_comm) and "_comm"
    local key = expr_of(opt.only_comm and name or p.key or "_tid", ev)
    local values, add, label = exprs_of(p.values, ev), rows:adding(p.first, #p.values), name and expr_of(name, ev)
    if label then
      ev:each(function(e)
        local k = key(e)
        if add(k, values(e)) then rows:name(k, label(e)) end
      end)
    else
      ev:each(function(e) add(key(e), values(e)) end)
    end
  end
end
return m
