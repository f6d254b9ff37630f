--- Keys of several events in one column, or of pairs: what their 64 bits read as.
local key = {}

--- The functions of expressions whose values are keys of one column, and its `as`. `list` has a table with `ev` and `key` for
--- each; `kind` is that of `expr_of`. Where the types differ, equal keys are equal values, and 2^64 - 1 is not -1.
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

--- What a key reads as that events of both types have in common: equal keys are the same 64 bits, whichever event they are of.
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

--- The function of expressions whose values are summed in columns from the `first` on, which are told what they read as.
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
