--- Conditions over named numbers, as typed: `sched_switch == 0 && wakeups > 3`.
local condition = {}

-- C operators that Lua writes otherwise; `!=` before `!`.
local OPERATORS = { { "!=", "~=" }, { "!", " not " }, { "&&", " and " }, { "||", " or " } }

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
  local chunk = load(("return function(v) return (%s) == true end"):format(source), "=condition")
  if not chunk then fail "it is not a whole expression" end
  local holds, zeros = chunk(), {}
  for i in ipairs(names) do zeros[i] = 1 end
  if not pcall(holds, zeros) then fail "it compares a number with a condition" end
  return holds
end

return condition
