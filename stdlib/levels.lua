--- Levels over time: numbers that change in steps, such as the length of a queue, averaged by time.
local levels = {}

local PARTS, FINEST = 40, 1e6                              -- parts drawn; nanoseconds of the first

---@class perilune.Level
---@field at number time up to which the level is added
---@field area number sum of level times nanoseconds
---@field most number
---@field times table<number, number> nanoseconds at the levels 1, 2 and, with all above, 3
---@field parts table<integer, number> area by part of the time, from 0

---@class perilune.Levels
---@field by table<integer, perilune.Level>
---@field start number
---@field width number nanoseconds of a part
local Levels = {}
Levels.__index = Levels

local function new(time)
  return { at = time, area = 0, most = 0, times = { 0, 0, 0 }, parts = {} }
end

--- Returns levels for these keys, usually `cpus()`.
---@param keys integer[]
---@return perilune.Levels
function levels.of(keys)
  local all = setmetatable({ by = {}, start = 0, width = FINEST }, Levels)
  for _, key in ipairs(keys) do all.by[key] = new(0) end
  return all
end

--- Doubles the width of the parts, so that as many cover twice the time.
function Levels:widen()
  self.width = 2 * self.width
  for _, level in pairs(self.by) do
    local parts = {}
    for i, area in pairs(level.parts) do
      local half = math.floor(i / 2)
      parts[half] = (parts[half] or 0) + area
    end
    level.parts = parts
  end
end

--- Adds a level from one time to another to the parts, and makes room for them. Separate from
--- `add`, which calls it about once per part: a loop in a handler costs more than the rest of it.
local function spread(self, level, from, time, value)
  while time - self.start >= 2 * PARTS * self.width do self:widen() end
  while from < time do
    local i = math.floor((from - self.start) / self.width)
    local till = math.min(self.start + (i + 1) * self.width, time)
    level.parts[i] = (level.parts[i] or 0) + value * (till - from)
    from = till
  end
end

--- Adds the level that a key had until `time`. Ignores keys that were not declared.
---@param key integer
---@param time number
---@param value number
function Levels:add(key, time, value)
  local level = self.by[key]
  if not level or time <= level.at then return end
  local from = level.at
  level.at = time
  if value == 0 then return end
  local area, times, top = value * (time - from), level.times, math.min(value, 3)
  level.area, level.most = level.area + area, math.max(level.most, value)
  times[top] = times[top] + time - from
  local start, width, parts = self.start, self.width, level.parts
  local part = math.floor((time - start) / width)
  if from >= start + part * width and parts[part] then parts[part] = parts[part] + area
  else spread(self, level, from, time, value) end
end

--- Returns the average of each part as one character, rounded up: `.` for 0, `+` for more than 9.
function Levels:strip(level, time)
  local text, span = {}, time - self.start
  local joined = span > PARTS * self.width and 2 or 1
  for i = 0, math.ceil(span / self.width / joined) - 1 do
    local first, area = i * joined, 0
    for part = first, first + joined - 1 do area = area + (level.parts[part] or 0) end
    local covered = math.min(joined * self.width, span - first * self.width)
    local average = math.ceil(area / covered - 1e-9)
    text[#text + 1] = average == 0 and "." or average > 9 and "+" or tostring(average)
  end
  return table.concat(text)
end

--- Returns a row for each key until `time`, sorted by key: the key, the average, the maximum, the
--- shares of time in percent at level 1, 2, and 3 or more, and the strip. Then starts again.
---@param time number
---@param current table<integer, number> the levels now
function Levels:rows(time, current)
  local rows, span = {}, time - self.start
  for key in pairs(self.by) do self:add(key, time, current[key]) end
  while span > 2 * PARTS * self.width do self:widen() end
  for key, level in pairs(self.by) do
    local times = level.times
    rows[#rows + 1] = { key, level.area / span, level.most, 100 * times[1] / span,
      100 * times[2] / span, 100 * times[3] / span, self:strip(level, time) }
    self.by[key] = new(time)
  end
  self.start, self.width = time, FINEST
  table.sort(rows, function(a, b) return a[1] < b[1] end)
  return rows
end

return levels
