--- Tables of sums over the present interval and the one before it.
local recent = {}

--- Returns a table, `spec` as for `kv` with `sums`, and two functions: `add`, which adds to it, and
--- `ends` for the end of each interval: with `shows` it fills the table from both intervals; then
--- the present interval becomes the one before.
---
---     local grown, add, ends = recent.table { "pid", "comm", sums = { "bytes" } }
---@param spec perilune.KvSpec
---@return perilune.Kv table
---@return fun(...: number|string) add
---@return fun(shows: boolean) ends
function recent.table(spec)
  local all = { sums = spec.sums, keep = true }
  for i, column in ipairs(spec) do all[i] = column end
  local before, present, shown = kv(all), kv(all), kv(spec)
  local function add(...) present:add(...) end
  local function copy(...)
    if (...) ~= nil then shown:add(...) return true end
  end
  local function ends(shows)
    for _, part in ipairs(shows and { before, present } or {}) do
      local next_row = part:each()
      while copy(next_row()) do end
    end
    before:clear()
    before, present = present, before
  end
  return shown, add, ends
end

return recent
