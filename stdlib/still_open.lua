--- Reports of the states of a `pending` that are open at the end of a run, the oldest first.
local still_open = {}

local MOST = 20

--- Returns a report of the open states, for `m.deinit`: a row for each of the oldest 20, with its
--- age in milliseconds as the last value. Returns nil if none is open. `row_of` returns the other
--- values of a row, or nil to omit the state.
---
---     return still_open.report("running", { "pid" }, running, function(pid) return { pid } end)
---@param title string
---@param columns perilune.Column[] those of `row_of`
---@param states perilune.Pending?
---@param row_of fun(key: any, state: perilune.State): any[]?
---@return perilune.Report?
function still_open.report(title, columns, states, row_of)
  local rows, age = {}, #columns + 1
  if not states then return nil end
  for key, state in states:each() do
    local row = row_of(key, state)
    if row then
      row[age] = (now() - state.time) / 1e6
      rows[#rows + 1] = row
    end
  end
  if #rows == 0 then return nil end
  table.sort(rows, function(a, b) return a[age] > b[age] end)
  local left = #rows - MOST
  for i = #rows, MOST + 1, -1 do rows[i] = nil end
  if left > 0 then note("%s: %d more", title, left) end
  local all = { unpack(columns) }
  all[age] = { "for(ms)", decimals = 3 }
  return report(title, all, rows)
end

--- Returns a report for each stage of a relation whose starts have no end yet.
---@param stages { open: perilune.Pending? }[]
---@param key perilune.Column
---@param start perilune.Column
---@return perilune.Report? ...
function still_open.of_stages(stages, key, start)
  local reports = {}
  for _, stage in ipairs(stages) do
    reports[#reports + 1] = stage.open and still_open.report("no end yet", { key, start },
      stage.open, function(k, s) return { k, s.from } end)
  end
  return unpack(reports)
end

return still_open
