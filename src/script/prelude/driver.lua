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

local cursor, live, leave = view.cursor, view.live, view.leave
local setmetatable = setmetatable

-- LuaJIT counts how often a function or a loop is entered, tries to compile it where it is hot, and gives it up for good
-- after some attempts that ended early; whatever calls it is then interpreted, too. These shapes keep the
-- attempts from ending early, whatever the machine's rhythm is:
-- - What returns into xpcall cannot be compiled, so xpcall stands around the walk and not around the handler. After an error
--   the walk goes on behind the event.
-- - A function with `...` is never counted: it becomes part of the traces around it.
-- - A loop of one turn ends before it has looped, so a run of one event is walked without a loop, and one run, too.
-- A predicate, which has `...` as well, belongs to the walk: the handler stays as it is.
-- Each event gets a view of its own, see view.lua.
local source = [[
local cursor, live, slots, order, handler, setmetatable, meta, met, hidden = ...
local function one(...)
  local n = live.n + 1
  live.n, live.role = n, ROLE
  local e = setmetatable({ ["#"] = n }, meta)
  HANDLE
end
local function many(...)
  local first, last = ...
  local before = live.n + 1 - first
  live.role = ROLE
  for at = first, last do
    cursor.at = at
    cursor.s = slots + order[at]
    local n = before + at
    live.n = n
    local e = setmetatable({ ["#"] = n }, meta)
    HANDLE
    if cursor.stop ~= 0 then return at end
  end
end
return one, many
]]

-- What stands for HANDLE: with a predicate; and where predicates leave fewer events than a batch has, with -N.
local chosen = "if met(e) then HANDLE else cursor.filtered = cursor.filtered + 1 end"
local counted = [[
if cursor.s.pid ~= hidden then
  cursor.left = cursor.left - 1
  if cursor.left == 0 then cursor.stop = 1 end
end
handler(e)]]

local function source_of(role, met, counting)
  local handle = counting and counted or "handler(e)"
  if met then handle = chosen:gsub("HANDLE", handle) end
  return (source:gsub("HANDLE", handle):gsub("ROLE", tostring(role)))
end

local ones, manies = {}, {}
-- Events of a handler that is off count as seen.
local function idle_one(...) end
local function idle(...) local _, last = ... cursor.at = last end

local function explain(why)
  if type(why) ~= "string" then why = tostring(why) end
  -- A tail call: this function is no frame any more, so level 1 is where the error was raised.
  return traceback(why, 1)
end

local M = {}

--- Puts `handler` on `role`, whose views are made. It gets the events that meet the predicate
-- `met`, if there is one. `hidden` is for M.limit: where events are counted, the process whose
-- events of this role are not, or -2.
function M.set(role, handler, met, hidden)
  local text = source_of(role, met, hidden)
  ones[role], manies[role] = loadstring(text, "=perilune:driver")(
    cursor, live, slots, order, handler, setmetatable, view.meta(role), met, hidden)
end

--- How many events predicates have kept back so far.
function M.filtered() return cursor.filtered end

--- Stops the walk behind the event that is the `left`th to be handled, not counting those that are hidden.
function M.limit(left) cursor.left = left end

--- How many events the limit leaves.
function M.left() return cursor.left end

--- Takes the handler of `role` away; its events still count as seen.
function M.clear(role) ones[role], manies[role] = idle_one, idle end

--- Takes every handler away.
function M.clear_all() for role in pairs(ones) do M.clear(role) end end

-- `single` walks the run of one event at position `at`; `singles` those from `at` to `last`, all of one event, as they
-- are where roles take turns in order; `walk` the runs from `r` on, the first of them from `at`.
local single, singles, walk = loadstring([=[
local ones, manies, slots, order, kinds, starts, cursor = ...
local function single(...)
  local at = ...
  local s = slots + order[at]
  cursor.at = at
  cursor.s = s
  ones[s.ev]()
end
local function singles(...)
  local at, last = ...
  single(at)
  if at == last or cursor.stop ~= 0 then return end
  if at + 1 == last then single(last) return end
  for at = at + 1, last do
    single(at)
    if cursor.stop ~= 0 then return end
  end
end
local function run(...)
  local r, first = ...
  local last = starts[r + 1] - 1
  if first == last then single(first) else manies[kinds[r]](first, last) end
end
local function walk(...)
  local r, at, n = ...
  run(r, at)
  if r + 1 == n or cursor.stop ~= 0 then return end
  if r + 2 == n then run(r + 1, starts[r + 1]) return end
  for r = r + 1, n - 1 do
    run(r, starts[r])
    if cursor.stop ~= 0 then return end
  end
end
return single, singles, walk
]=], "=perilune:walk")(ones, manies, slots, order, kinds, starts, cursor)

-- The run, from `r` on, that position `at` lies in; `n` behind the last one.
local function run_of(r, at, n)
  while r < n and starts[r + 1] <= at do r = r + 1 end
  return r
end

-- Tells of the event at hand, which failed in run `r` or a later one; gives where to go on, and in which run.
local function fail(r, n, why)
  local at = cursor.at + 1
  r = run_of(r, at - 1, n)
  if failed(kinds[r], order[at - 1], why) then M.clear(kinds[r]) end
  return at, run_of(r, at, n)
end

--- Walks the batch: `n` runs, each of one role, from starts[r] up to starts[r + 1]; of them the events from position `at`.
-- Where there is one run, it is of `role` and ends with position `last`: this function is interpreted, and reading that
-- from the arrays would cost as much as handling ten events.
-- Returns the position behind the last event handed over: `stop` leaves the rest. Afterwards the cursor stands
-- nowhere and no view is valid: the ring's tail moves.
function M.walk(...)
  local n, at, role, last = ...
  local r, ok, why = 0
  if n == 1 then
    if at == last then
      ok, why = xpcall(single, explain, at)
    else
      ok, why = xpcall(manies[role], explain, at, last)
    end
    if ok then
      leave()
      return (why or last) + 1
    end
    at, r = fail(0, n, why)
  elseif at > 0 then
    r = run_of(0, at, n)
  end
  while r < n and cursor.stop == 0 do
    if n == last + 1 then
      ok, why = xpcall(singles, explain, at, last)
    else
      ok, why = xpcall(walk, explain, r, at, n)
    end
    if ok then at = cursor.at + 1 break end
    at, r = fail(r, n, why)
  end
  leave()
  return at
end

return M
