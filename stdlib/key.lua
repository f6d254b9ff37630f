--- Types of 64-bit keys: of several events in one column, or of event pairs.
local key = {}

--- Compiles the key expressions of one column; returns the functions, the column's `as`, and
--- whether the types of the keys differ. `list` contains a table with `ev` and `key` for each;
--- `kind` is that of `expr_of`. If the types differ, keys are equal only if their values are equal:
--- 2^64 - 1 is not -1.
---@param list { ev: perilune.Evsel, key: string }[]
---@param kind? "number"|"text"
---@return (fun(e: perilune.Sample): number|string)[] functions
---@return string? as
---@return boolean differ
function key.column(list, kind)
  local functions, all, differ, text = {}, nil, false, false
  for i, it in ipairs(list) do
    local f, as = expr_of(it.key, it.ev, kind)
    functions[i], text = f, text or as == "text"
    differ = differ or as == "mixed" or all ~= nil and all ~= as
    all = as
  end
  if not differ then return functions, all, false end
  for i, it in ipairs(list) do functions[i] = expr_of(it.key, it.ev, kind, true) end
  return functions, text and "text" or "mixed", true
end

--- Returns the common type of the key of two events. Equal keys are the same 64 bits.
---@param a string?
---@param b string?
---@return string?
function key.shared(a, b)
  if not a or not b or a == b then return a or b end
  for _, as in ipairs { "text", "pointer", "unsigned" } do
    if a == as or b == as then return as end
  end
  return "signed"
end

--- Compiles the expressions whose values are summed, and sets `as` of their columns, which begin at
--- index `first`.
---@param sources string[]
---@param ev perilune.Evsel
---@param columns { as: string? }[]
---@param first integer
---@return fun(e: perilune.Sample): ...
function key.sums(sources, ev, columns, first)
  local values, types = exprs_of(sources, ev, "number")
  for i, as in ipairs(types) do columns[first + i - 1].as = as end
  return values
end

--- Prefixes of names that contain the symbol of a function or variable.
local OF_SYMBOLS = { mem = true, kprobe = true, kretprobe = true, uprobe = true, uretprobe = true,
  usdt = true, fprobe = true, fretprobe = true, tprobe = true }

--- Returns the value columns of a selector, and the expressions that they sum.
local function columns_of(s)
  local columns, values = {}, {} ---@type table[], string[]
  for _, attr in ipairs(s.attr) do
    if attr[1] == "top-by" or attr[1] == "top-add" then
      local title = #values == 0 and s.attr.alias or attr[2]
      columns[#columns + 1] = { title:upper(), first = attr[1] == "top-by" }
      values[#values + 1] = attr[2]
    end
  end
  if #values > 0 then return columns, values end
  -- A symbol keeps its case.
  if not s.attr.alias and OF_SYMBOLS[s.name:match "^(%a+):"] then return { { s.name } }, { "1" } end
  return { { (s.attr.alias or s.name:match ":(.*)" or s.name):upper() } }, { "1" }
end

--- Returns the message about a selector that lacks an attribute, given as in `key=pid`: `why`, and
--- the selector with it.
---@param s perilune.Selector
---@param attr string
---@param why? string
---@return string
function key.without(s, attr, why)
  return ("%s: %sadd %s, as in %s/%s/%s/"):format(s.name, why or "", attr:match "^%w+=", s.name,
    s.filter or "", attr)
end

--- Raises an error unless the selectors of a plan fit into one table.
local function check(plan, selectors, opt, by_stack)
  if opt.flame_graph and not by_stack then
    error("--flame-graph draws stacks; omit other keys, or use -k _stack", 0)
  end
  for i, s in ipairs(selectors) do
    if by_stack ~= (plan[i].key == "_stack") then
      error(s.name .. ": use the key _stack for all events or for none", 0)
    end
    if plan.keyed > 0 and not plan[i].key and not opt.only_comm then
      error(key.without(s, "key=pid", "other events have a key, this one does not; "), 0)
    end
  end
  if opt.only_comm and not plan.named then
    error("--only-comm needs a name: add comm= to an event", 0)
  end
end

--- Plans one table for the selectors of an option: for each its `key`, `name`, `values` and the
--- index `first` of its value columns. The plan has `keyed`, the number of selectors with a key;
--- `title`, `printkey` and `name`, the first of each; and `named`, whether rows have a name.
--- Also returns the value columns, and whether the key is the stack.
---@return table plan
---@return table[] columns
---@return boolean by_stack
function key.plan(selectors, opt)
  local plan, columns = { keyed = 0 }, {} ---@type table, table[]
  for i, s in ipairs(selectors) do
    local by = s.attr.key or opt.key or opt.flame_graph and "_stack"
    local own, values = columns_of(s)
    plan[i] = { key = by, first = #columns + 1, values = values, name = s.attr.comm }
    for _, c in ipairs(own) do columns[#columns + 1] = c end
    plan.title, plan.printkey = plan.title or by, plan.printkey or s.attr.printkey
    plan.name = plan.name or s.attr.comm
    plan.keyed = plan.keyed + (by and 1 or 0)
  end
  plan.named = plan.name or plan.keyed < #selectors
  local by_stack = plan.title == "_stack"
  check(plan, selectors, opt, by_stack)
  return plan, columns, by_stack
end

return key
