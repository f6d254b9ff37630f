--- string.find, match, gmatch and gsub over a matcher that the guard can stop.
--
-- LuaJIT's own functions ignore the hook, and a pattern may backtrack for years. These call a leaf
-- that polls the guard. LuaJIT compiles a call of the leaf, but not of its own functions. A plain
-- search uses LuaJIT's own function.
local ffi, search_at, places = ...

local type, tonumber, tostring, error = type, tonumber, tostring, error
local floor, ceil = math.floor, math.ceil
local sub, byte, concat, sort = string.sub, string.byte, table.concat, table.sort
local own_find, own_match, own_gmatch, own_gsub =
  string.find, string.match, string.gmatch, string.gsub

local search = ffi.cast(
  "int32_t (*)(const char *, int32_t, const char *, int32_t, int32_t, int32_t, int32_t *)",
  search_at)
local found = ffi.new("int32_t[?]", places)

-- The same values as in patterns.rs.
local ANCHORS, PLAIN, CAPTURES = 1, 2, 4
local NO_MATCH, UNFINISHED, POSITION = -1, -1, -2
local WHY = {
  [-2] = "invalid capture index", [-3] = "too many captures", [-4] = "unfinished capture",
  [-5] = "missing '[' after '%f' in pattern", [-6] = "invalid pattern capture",
  [-7] = "malformed pattern (ends with '%')", [-8] = "malformed pattern (missing ']')",
  [-9] = "unbalanced pattern", [-10] = "pattern too complex",
  -- The hook raises its own error before this one is seen.
  [-11] = "stopped",
}

-- Steps of a plain search (the product of both lengths) up to which LuaJIT's own function is used.
local STEPS = 1e8
-- Size of the cache of plain patterns.
local KNOWN = 256
local plain_of, known = {}, 0

--- Returns whether a pattern has no special characters.
local function is_plain(pattern)
  local plain = plain_of[pattern]
  if plain == nil then
    plain = not own_find(pattern, "[%^%$%*%+%?%.%(%[%%%-]")
    if known == KNOWN then plain_of, known = {}, 0 end
    plain_of[pattern], known = plain, known + 1
  end
  return plain
end

--- Returns a string or a number as a string; nil for anything else, for which LuaJIT's own function
-- raises its error.
local function text_of(value)
  if type(value) == "string" then return value end
  if type(value) == "number" then return tostring(value) end
end

--- Returns an integer argument, or `usual` if it is absent; nil if it is not a number.
local function integer(value, usual)
  if value == nil then return usual end
  value = tonumber(value)
  if not value then return nil end
  -- As LuaJIT, converts numbers outside the range to the smallest integer.
  if not (value > -2147483649 and value < 2147483648) then return -2147483648 end
  return value < 0 and ceil(value) or floor(value)
end

--- Returns the offset at which a search starts; greater than `length` if that is past the end.
local function start_of(from, length)
  from = integer(from, 1)
  if not from then return nil end
  if from > 0 then from = from - 1 elseif from < 0 then from = from + length end
  return from < 0 and 0 or from
end

local function capture(text, i)
  local start, length = found[2 * i + 2], found[2 * i + 3]
  if length == POSITION then return start + 1 end
  return sub(text, start + 1, start + length)
end

local function captures_from(text, i, count)
  if i == count - 1 then return capture(text, i) end
  return capture(text, i), captures_from(text, i + 1, count)
end

--- Returns the captures of the last search, or the whole match if there are none.
local function captures(text, count)
  if count == 0 then return sub(text, found[0] + 1, found[1]) end
  if count == 1 then return capture(text, 0) end
  if count == 2 then return capture(text, 0), capture(text, 1) end
  if count == 3 then return capture(text, 0), capture(text, 1), capture(text, 2) end
  return captures_from(text, 0, count)
end

local M = {}

function M.find(text, pattern, from, plain)
  local s, p = text_of(text), text_of(pattern)
  local at = s and p and start_of(from, #s)
  if not at then return own_find(text, pattern, from, plain) end
  if at > #s then return nil end
  local how = ANCHORS + CAPTURES
  if plain or is_plain(p) then
    if #s * #p < STEPS then return own_find(s, p, at + 1, true) end
    how = PLAIN
  end
  local count = search(s, #s, p, #p, at, how, found)
  if count == NO_MATCH then return nil end
  if count < 0 then error(WHY[count], 2) end
  if count == 0 then return found[0] + 1, found[1] end
  return found[0] + 1, found[1], captures(s, count)
end

function M.match(text, pattern, from)
  local s, p = text_of(text), text_of(pattern)
  local at = s and p and start_of(from, #s)
  if not at then return own_match(text, pattern, from) end
  if at > #s then return nil end
  local count = search(s, #s, p, #p, at, ANCHORS + CAPTURES, found)
  if count == NO_MATCH then return nil end
  if count < 0 then error(WHY[count], 2) end
  return captures(s, count)
end

local function matches(text, pattern)
  local at = 0
  return function()
    if at > #text then return end
    local count = search(text, #text, pattern, #pattern, at, CAPTURES, found)
    if count == NO_MATCH then return end
    if count < 0 then error(WHY[count], 2) end
    local first, last = found[0], found[1]
    at = last == first and last + 1 or last
    return captures(text, count)
  end
end

-- Creates the closure in a callback of table.sort: LuaJIT cannot compile a trace that creates a
-- closure, but can stitch around a C function. A sort of two elements compares once.
local two, subject, wanted, made = { 1, 2 }, nil, nil, nil
local function make() made = matches(subject, wanted) end

function M.gmatch(text, pattern)
  local s, p = text_of(text), text_of(pattern)
  if not (s and p) then return own_gmatch(text, pattern) end
  subject, wanted = s, p
  sort(two, make)
  local iterator = made
  subject, wanted, made = nil, nil, nil
  return iterator
end

--- Expands a replacement with `%0`, `%1` …; returns nil and why if there is no such capture.
local function expanded(by, text, count)
  local parts, n, at = {}, 0, 1
  while true do
    local mark = own_find(by, "%", at, true)
    if not mark then break end
    parts[n + 1] = sub(by, at, mark - 1)
    local digit = (byte(by, mark + 1) or 0) - 48
    if digit == 0 then
      parts[n + 2] = sub(text, found[0] + 1, found[1])
    elseif digit >= 1 and digit <= 9 then
      if digit > count and not (digit == 1 and count == 0) then return nil, WHY[-2] end
      if count > 0 and found[2 * digit + 1] == UNFINISHED then return nil, WHY[-4] end
      parts[n + 2] = count == 0 and sub(text, found[0] + 1, found[1]) or capture(text, digit - 1)
    else
      parts[n + 2] = mark == #by and "\0" or sub(by, mark + 1, mark + 1)
    end
    n, at = n + 2, mark + 2
  end
  parts[n + 1] = sub(by, at)
  return concat(parts)
end

--- Returns the replacement of the current match in gsub, or nil and why if there is none.
local function replaced(by, kind, simple, text, count)
  if kind == "string" then
    if simple then return by end
    return expanded(by, text, count)
  end
  local first, last, value = found[0], found[1], nil
  if kind == "function" then
    value = by(captures(text, count))
  else
    if count > 0 and found[3] == UNFINISHED then return nil, WHY[-4] end
    value = by[count == 0 and sub(text, first + 1, last) or capture(text, 0)]
  end
  if not value then return sub(text, first + 1, last) end
  local new = text_of(value)
  if new then return new end
  return nil, "invalid replacement value (a " .. type(value) .. ")"
end

function M.gsub(text, pattern, by, most)
  local s, p, kind = text_of(text), text_of(pattern), type(by)
  local limit = s and integer(most, #s + 1)
  if kind == "number" then by, kind = tostring(by), "string" end
  if not (limit and p) or kind ~= "string" and kind ~= "function" and kind ~= "table" then
    return own_gsub(text, pattern, by, most)
  end
  local simple = kind == "string" and not own_find(by, "%", 1, true)
  local how = kind == "function" and ANCHORS + CAPTURES or ANCHORS
  local anchored = byte(p, 1) == 94
  local parts, n, done, at = {}, 0, 0, 0
  while done < limit do
    local count = search(s, #s, p, #p, at, how, found)
    if count == NO_MATCH then break end
    if count < 0 then error(WHY[count], 2) end
    local first, last = found[0], found[1]
    local new, why = replaced(by, kind, simple, s, count)
    if not new then error(why, 2) end
    done = done + 1
    parts[n + 1], parts[n + 2] = sub(s, at + 1, first), new
    if last > first then
      n, at = n + 2, last
    else
      -- Copies the byte after an empty match.
      parts[n + 3] = sub(s, first + 1, first + 1)
      n, at = n + 3, first + 1
    end
    if anchored or at > #s then break end
  end
  if done == 0 then return s, 0 end
  parts[n + 1] = sub(s, at + 1)
  return concat(parts), done
end

return M
