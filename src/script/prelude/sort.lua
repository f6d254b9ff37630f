--- table.sort in Lua: LuaJIT's own function ignores the hook, and takes years for some orders.
--
-- Uses the same algorithm (lib_table.c), so that equal elements end up in the same order.
local rawget, rawset, rawlen, type, error = rawget, rawset, rawlen, type, error
local own_sort = table.sort

local function less(a, b) return a < b end

--- Sorts t[first] up to t[last]. Returns false if `before` is not an order.
local function sort_range(t, first, last, before)
  while first < last do
    local a, b = rawget(t, first), rawget(t, last)
    if before(b, a) then
      rawset(t, first, b)
      rawset(t, last, a)
    end
    if last - first == 1 then return true end
    local i = (first + last - (first + last) % 2) / 2
    local middle, bound = rawget(t, i), rawget(t, first)
    if before(middle, bound) then
      rawset(t, i, bound)
      rawset(t, first, middle)
    else
      bound = rawget(t, last)
      if before(bound, middle) then
        rawset(t, i, bound)
        rawset(t, last, middle)
      end
    end
    if last - first == 2 then return true end
    local pivot = rawget(t, i)
    rawset(t, i, rawget(t, last - 1))
    rawset(t, last - 1, pivot)
    local j = last - 1
    i = first
    while true do
      i = i + 1
      local low = rawget(t, i)
      while before(low, pivot) do
        if i >= last then return false end
        i = i + 1
        low = rawget(t, i)
      end
      j = j - 1
      local high = rawget(t, j)
      while before(pivot, high) do
        if j <= first then return false end
        j = j - 1
        high = rawget(t, j)
      end
      if j < i then break end
      rawset(t, i, high)
      rawset(t, j, low)
    end
    local at = rawget(t, last - 1)
    rawset(t, last - 1, rawget(t, i))
    rawset(t, i, at)
    -- Recurses into the smaller part and loops over the larger one: the depth is at most log2(n).
    if i - first < last - i then
      if not sort_range(t, first, i - 1, before) then return false end
      first = i + 1
    else
      if not sort_range(t, i + 1, last, before) then return false end
      last = i - 1
    end
  end
  return true
end

return function(t, before)
  if type(t) ~= "table" or before ~= nil and type(before) ~= "function" then
    return own_sort(t, before)
  end
  if not sort_range(t, 1, rawlen(t), before or less) then
    error("invalid order function for sorting", 2)
  end
end
