--- Rows of a table, with columns that are computed from others.
local rows = {}

--- Returns the first `most` rows of a table as lists of their values, each with the result of
--- `compute(row)` as a further value, and the number of the others as `hidden`; clears the table.
--- For `report`, in `m.interval`.
---@param table perilune.Kv
---@param most integer
---@param compute fun(row: any[]): number|string
---@return any[][]
function rows.take(table, most, compute)
  local list, next_row = {}, table:each() ---@type any, function
  local row = { next_row() } ---@type any[]
  while row[1] ~= nil and #list < most do
    row[#row + 1] = compute(row)
    list[#list + 1] = row
    row = { next_row() }
  end
  local others, key = 0, row[1]
  while key ~= nil do others, key = others + 1, next_row() end
  list.hidden = others
  table:clear()
  return list
end

return rows
