--- Rows in groups: each group stands together, its heaviest rows first, the rest as one row.
local grouped = {}

---@class perilune.grouped.Spec
---@field by integer index of the value that the rows of a group share
---@field weight integer index of the number that orders rows; groups are ordered by its sum
---@field sums integer[] indexes of the numbers that the row of the others adds up, also `weight`
---@field text integer index of the text of that row, `(others)`: a metric has it as a label
---@field most integer rows of a group before that row
---@field ascending? boolean order groups by their value, instead of the heaviest first

--- Orders `rows` in place by group and weight, and returns them with the rows after the first
--- `most` of each group added up, if there are at least two.
---@param rows any[][]
---@param spec perilune.grouped.Spec
---@return any[][]
function grouped.rows(rows, spec)
  local by, weight, totals = spec.by, spec.weight, {}
  local sizes = {}
  for _, row in ipairs(rows) do
    local group = row[by]
    totals[group], sizes[group] = (totals[group] or 0) + row[weight], (sizes[group] or 0) + 1
  end
  table.sort(rows, function(a, b)
    local one, other = a[by], b[by]
    if one ~= other then
      if spec.ascending or totals[one] == totals[other] then return one < other end
      return totals[one] > totals[other]
    end
    return a[weight] > b[weight]
  end)
  local shown, seen, rest, group = {}, 0, nil, nil
  for _, row in ipairs(rows) do
    if row[by] ~= group then seen, rest, group = 0, nil, row[by] end
    seen = seen + 1
    if seen <= spec.most or sizes[group] == spec.most + 1 then
      shown[#shown + 1] = row
    else
      rest = rest or { [by] = group } ---@type table
      if not rest[weight] then shown[#shown + 1] = rest end
      for _, i in ipairs(spec.sums) do rest[i] = (rest[i] or 0) + row[i] end
      rest[spec.text] = "(others)"
    end
  end
  return shown
end

return grouped
