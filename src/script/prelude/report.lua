--- The function `report`, which makes a table of the script's own.
local _, _, native, exports = ...

local type, error, ipairs = type, error, ipairs
local new_report = native.new_report

--- A table of the script's own: `report(title, { column… }, { {v…}… }, name)`.
function exports.report(title, columns, rows, name)
  if type(columns) ~= "table" or type(rows) ~= "table" then
    error("report takes a title, columns and rows", 2)
  end
  -- As in other tables, a column that is false hides its values, and a column may have a function
  -- that draws them.
  local shown, drawn = {}, { hidden = rows.hidden }
  for i, column in ipairs(columns) do
    if column then
      local draw = type(column) == "table" and column[2] or nil
      if draw and type(draw) ~= "function" then
        error("a column of report is a title, or { title, function }", 2)
      end
      shown[#shown + 1] = { i, column, draw }
    end
  end
  for i, row in ipairs(rows) do
    if type(row) ~= "table" then
      error(("a row of report is a table of values, not a %s"):format(type(row)), 2)
    end
    local cells = {}
    for j, it in ipairs(shown) do
      local value = row[it[1]]
      if it[3] and value ~= nil then value = it[3](value) end
      cells[j] = value
    end
    drawn[i] = cells
  end
  for j, it in ipairs(shown) do shown[j] = it[2] end
  return new_report(title or false, shown, drawn, name)
end
