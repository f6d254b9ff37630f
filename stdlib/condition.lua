--- Conditions over named numbers, as typed: `sched_switch == 0 && wakeups > 3`.
local condition = {}

-- C operators that Lua writes otherwise; `!=` before `!`.
local OPERATORS = { { "!=", "~=" }, { "!", " not " }, { "&&", " and " }, { "||", " or " } }

--- Returns the names of events in a condition: `alias=`, or the part of the name after the colon.
--- Raises an error if two have the same name.
---@param selectors perilune.Selector[]
---@return string[]
function condition.names(selectors)
  local names, used = {}, {}
  for i, s in ipairs(selectors) do
    local name = s.attr.alias or s.name:match ":([^:]+)$" or s.name
    if used[name] then
      local why = "%s: two events have the name '%s'; give one of them another: %s//alias=NAME/"
      error(why:format(s.name, name, s.name), 0)
    end
    names[i], used[name] = name, true
  end
  return names
end

--- Compiles a condition into a function of the values of `names`, in that order. Operators are
--- those of C: `== != < <= > >= && || ! + - * /`. A condition that cannot be read is an error.
---@param text string
---@param names string[]
---@return fun(values: number[]): boolean
function condition.of(text, names)
  local function fail(why)
    error(("invalid condition '%s': %s; use numbers, %s"):format(
      text, why, table.concat(names, ", ")), 0)
  end
  local index, source = {}, " " .. text
  for i, name in ipairs(names) do index[name] = i end
  local strange = source:match "[^%w_%s%.%+%-%*/()<>=!&|]"
  if strange then fail(("'%s' is not an operator"):format(strange)) end
  for _, pair in ipairs(OPERATORS) do
    source = source:gsub(pair[1]:gsub("%W", "%%%0"), (pair[2]:gsub("%%", "%%%%")))
  end
  local unknown ---@type any
  source = source:gsub("%f[%w_%.]([%a_][%w_]*)", function(name)
    if name == "and" or name == "or" or name == "not" then return end
    unknown = unknown or not index[name] and name
    return ("v[%d]"):format(index[name] or 0)
  end)
  if unknown then fail(("'%s' is not one of the events"):format(unknown)) end
  if source:find "%f[%w_]not%s+[%w_%.]" then
    fail "`!` takes a comparison in parentheses; write NAME == 0"
  end
  local chunk = load(("return function(v) return %s end"):format(source), "=condition")
  if not chunk then fail "it is not a whole expression" end
  local holds = chunk()
  -- A number counts as true in Lua, so which operand is the result depends on the values.
  for value = 0, 2 do
    local values = {}
    for i in ipairs(names) do values[i] = value end
    local ok, result = pcall(holds, values)
    if not ok then fail "it compares a number with a condition" end
    if type(result) ~= "boolean" then
      fail(("it is a number, not a comparison, such as %s > 0"):format(names[1] or "1"))
    end
  end
  return function(values) return holds(values) == true end
end

return condition
