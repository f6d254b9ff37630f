--- Lists of numbers and ranges, as typed: `0-98,120`.
local ranges = {}

--- Returns a function that returns whether a number is in the list. A list that cannot be read is
--- an error that begins with the name of the option.
---@param list string
---@param option string
---@return fun(value: number): boolean
function ranges.of(list, option)
  local bounds = {}
  for part in (list .. ","):gmatch "(.-)," do
    local from, to = part:match "^(%-?%d+)%-(%-?%d+)$"
    local low, high = tonumber(from or part:match "^%-?%d+$"), tonumber(to)
    if not low or high and high < low then
      error(("%s: invalid range '%s'; write numbers and ranges, such as 0-98,120")
        :format(option, part), 0)
    end
    bounds[#bounds + 1] = { low, high or low }
  end
  return function(value)
    for _, range in ipairs(bounds) do
      if value >= range[1] and value <= range[2] then return true end
    end
    return false
  end
end

return ranges
