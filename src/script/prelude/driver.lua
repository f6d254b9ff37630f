--- Drivers: the loops that carry slots to handlers.
--
-- One chunk per role, each loaded by itself, so that every handler gets traces of its own and one that cannot
-- be compiled spoils no other. xpcall per event costs nothing once compiled; a failing event is
-- reported and the next one goes on.
local ffi, view, slots_at, order_at, kinds_at, starts_at, failed = ...

local cast, loadstring, xpcall, type, tostring = ffi.cast, loadstring, xpcall, type, tostring
local traceback = debug.traceback
local slots = cast("const perilune_slot *", slots_at)
local order = cast("const uint16_t *", order_at)
local kinds = cast("const uint16_t *", kinds_at)
local starts = cast("const uint16_t *", starts_at)
local cursor = view.cursor

local drivers = {}
local idle = function(_, last) return last end            -- events of a handler that is off count as seen

local source = [[
local cursor, slots, order, xpcall, handler, e, mt, live, dead, explain, failed = ...
return function(first, last)
  local seen = last
  mt.__index = live
  for j = first, last do
    cursor.s = slots + order[j]
    local ok, why = xpcall(handler, explain, e)
    if not ok and failed(order[j], why) then break end
    if cursor.stop ~= 0 then seen = j break end
  end
  mt.__index = dead
  return seen
end
]]

local function explain(why)
  if type(why) ~= "string" then why = tostring(why) end
  -- A tail call: this function is no frame any more, so level 1 is where the error was raised.
  return traceback(why, 1)
end

local M = {}

--- Puts `handler` on `role`; `e` and its parts come from view.make.
function M.set(role, handler, e, mt, live, dead)
  local function fail(slot, why)
    if not failed(role, slot, why) then return false end
    drivers[role] = idle
    return true
  end
  drivers[role] = loadstring(source, "=perilune:driver")(
    cursor, slots, order, xpcall, handler, e, mt, live, dead, explain, fail)
end

--- Takes the handler of `role` away; its events still count as seen.
function M.clear(role) drivers[role] = idle end

--- Takes every handler away.
function M.clear_all() for role in pairs(drivers) do drivers[role] = idle end end

--- Walks the batch: `n` runs, each of one role, from starts[r] up to starts[r + 1]. Returns how many events were
-- handed over: `stop` leaves the rest. Afterwards the cursor stands nowhere: the ring's tail moves, so
-- nothing that a script kept of `e` may lead there.
M.walk = loadstring([=[
local drivers, kinds, starts, cursor = ...
return function(n)
  local seen = -1
  for r = 0, n - 1 do
    seen = drivers[kinds[r]](starts[r], starts[r + 1] - 1)
    if cursor.stop ~= 0 then break end
  end
  cursor.s = nil
  return seen + 1
end
]=], "=perilune:walk")(drivers, kinds, starts, cursor)

return M
