--- The selectors of all groups of an option made by `events`, in one list.
local flat = {}

--- Returns the selectors of `opt.event` in the order in which they were typed.
---@param groups perilune.Selector[][]|false|nil
---@return perilune.Selector[]
function flat.selectors(groups)
  local all = {}
  for _, group in ipairs(groups or {}) do
    for _, selector in ipairs(group) do all[#all + 1] = selector end
  end
  return all
end

return flat
