--- Types of 64-bit keys: of several events in one column, or of event pairs.
local key = {}

--- Compiles the key expressions of one column; returns the functions and the column's `as`. `list`
--- holds a table with `ev` and `key` for each; `kind` is that of `expr_of`. If the types differ,
--- keys are equal only if their values are: 2^64 - 1 is not -1.
---@param list { ev: perilune.Evsel, key: string }[]
---@param kind? "number"|"text"
---@return (fun(e: perilune.Sample): number|string)[] functions
---@return string? as
function key.column(list, kind)
  local functions, all, differ, text = {}, nil, false, false
  for i, it in ipairs(list) do
    local f, as = expr_of(it.key, it.ev, kind)
    functions[i], text = f, text or as == "text"
    differ = differ or as == "mixed" or all ~= nil and all ~= as
    all = as
  end
  if not differ then return functions, all end
  for i, it in ipairs(list) do functions[i] = expr_of(it.key, it.ev, kind, true) end
  return functions, text and "text" or "mixed"
end

--- Returns the type of a key that both events of a pair have. Equal keys are the same 64 bits.
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

--- Compiles the expressions whose values are summed, and sets `as` of their columns, the first of
--- which is `first`.
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

return key
