--- The events of a declaration, each with its own expressions: `between` of a latency and of a kv,
-- and `measure` of a latency. Trusted code, as pairs.lua.
local _, _, _, exports = ...

local check_options, entry_of = exports.check_options, exports.entry_of

local error, ipairs, pairs, tostring, type = error, ipairs, pairs, tostring, type

local USAGE = "between takes two evsels and a table: "
  .. "calls:between(enter, exit, { key = \"_tid\" })"

--- Returns the sides of a list: an evsel, a table with one and its own expressions, or a list of
--- such tables. `side_of(own)` returns a side without its event, or nil without an expression.
--- `names`: what a side may have.
local function sides_of(list, usage, names, side_of)
  if entry_of(list) then list = { { list } }
  elseif type(list) == "table" and entry_of(list[1]) then list = { list } end
  if type(list) ~= "table" or #list == 0 then error(usage, 0) end
  local sides = {}
  for i, own in ipairs(list) do
    local entry = type(own) == "table" and entry_of(own[1])
    if entry then
      check_options(("%s: %s"):format(usage:match "^%w+", entry.ev.name), own, names)
    end
    local side = entry and side_of(own)
    if not side then error(usage, 0) end
    side.entry, sides[i] = entry, side
  end
  return sides
end

--- Adds expressions to those of `columns`, whose first one has the index `before + 1`. Raises an
--- error for one without a column.
local function add_columns(columns, what, list, before, number)
  if type(list or {}) ~= "table" then
    error(("between: '%s' takes a list of expressions"):format(what), 0)
  end
  for i, text in pairs(list or {}) do
    if type(i) ~= "number" or i < 1 or i > number or i % 1 ~= 0 then
      error(("between: '%s' has the index %s; the largest index of this table is %d")
        :format(what, tostring(i), number), 0)
    end
    columns[before + i] = text
  end
end

--- Returns the sides of a start or an end, or those that drop starts. A side without columns has
--- those of `default`.
function exports.paired_events(list, of, plan, default)
  return sides_of(list, USAGE, "key same where rows sums once last", function(own)
    local key = own.key or of.key
    if type(key) ~= "table" then key = { key } end
    if #key > 1 and not of.records then
      error("between: a key of several columns needs records = function(open) … end", 0)
    end
    local columns = {}
    add_columns(columns, "rows", own.rows or default.rows, 0, plan.keys)
    add_columns(columns, "sums", own.sums or default.sums, plan.keys, plan.sums or 0)
    return #key > 0 and { key = key, where = own.where, same = own.same or of.same,
      rows = columns, once = own.once, last = own.last }
  end)
end

exports.between_usage = USAGE
exports.sides_of = sides_of
