--- Drivers: the loops that pass slots to handlers.
--
-- One chunk per role, loaded separately, so that every handler gets its own traces and one that
-- cannot be compiled does not affect the others. xpcall costs nothing once compiled; a failing
-- event is reported and the walk continues with the next one.
local ffi, view, native = ...

local new, pairs = ffi.new, pairs
local cast, loadstring, xpcall, type, tostring = ffi.cast, loadstring, xpcall, type, tostring
local traceback, failed, fill = debug.traceback, native.failed, native.fill
local slots = cast("const perilune_slot *", native.slots)
local order = cast("const uint16_t *", native.order)
local kinds = cast("const uint16_t *", native.kinds)
local starts = cast("const uint16_t *", native.starts)
-- The weight of each slot, and where aggregates read that of the current event; nil if all are 1.
local weights = native.weight and cast("const uint32_t *", native.weights)
local weight = native.weight and cast("double *", native.weight)

local cursor, live, leave, ctx = view.cursor, view.live, view.leave, view.ctx
local tap = native.tap and cast("void (*)(void *, const perilune_slot *)", native.tap)
local setmetatable = setmetatable

-- LuaJIT counts how often a function or a loop is entered, tries to compile it when it is hot, and
-- gives it up for good after several aborted attempts; its callers are then interpreted, too. The
-- following rules avoid aborted attempts, whatever the order of events on the machine:
-- - Code that returns into xpcall cannot be compiled, so xpcall is around the walk and not around
--   the handler. After an error the walk continues behind the event.
-- - A function with `...` is never counted: it becomes part of the traces around it.
-- - A loop with one iteration ends before it has looped, so a single event is walked without a
--   loop, and so is a single run.
-- A predicate, which also has `...`, belongs to the walk: the handler is not changed.
-- Each event gets a view of its own, see view.lua.
local source = [[
local cursor, live, slots, order, handler, setmetatable, meta, met, hidden, rejected, left, tap,
  ctx, weights, weight = ...
local function one(...)
  local n = live.n + 1
  live.n, live.role = n, $role
  local e = setmetatable({ ["#"] = n }, meta)
  $handle
end
local function many(...)
  local first, last = ...
  local before = live.n + 1 - first
  live.role = $role
  for at = first, last do
    cursor.at = at
    cursor.s = slots + order[at]
    local n = before + at
    live.n = n
    local e = setmetatable({ ["#"] = n }, meta)
    $handle
    if cursor.stop ~= 0 then return at end
  end
end
return one, many
]]

-- The part `handle`: with a timeline, which gets the events that handlers get; with a predicate;
-- and with -N, where events are counted because predicates leave fewer than a batch has.
local chosen = "if met(e) then $handle else rejected[0] = rejected[0] + 1 end"
local counted = [[
if cursor.s.pid ~= hidden then
  left[0] = left[0] - 1
  if left[0] == 0 then cursor.stop = 1 end
end
handler(e)]]

-- And with weights.
local weighed = "weight[0] = weights[order[cursor.at]] $handle"

local function source_of(role, met, counting)
  local handle = counting and counted or "handler(e)"
  if tap then handle = "tap(ctx, cursor.s) " .. handle end
  if met then handle = fill(chosen, { handle = handle }) end
  if weight then handle = fill(weighed, { handle = handle }) end
  return fill(source, { handle = handle, role = role })
end

local ones, manies = {}, {}
-- The number of events until -N is reached.
local left = new("double[1]", math.huge)
-- The number of events that the predicate of each role has rejected.
local rejected = {}
-- Events of a handler that is off count as handled.
local function idle_one(...) end
local function idle(...) local _, last = ... cursor.at = last end

local function explain(why)
  if type(why) ~= "string" then why = tostring(why) end
  -- A tail call: removes the frame of this function, so level 1 is where the error was raised.
  return traceback(why, 1)
end

local M = {}

--- Sets the handler of `role`, whose views exist. It gets the events that meet the predicate `met`,
-- if there is one. `hidden` is for M.limit: if events are counted, the process whose events of this
-- role are not counted, or -2 for none.
function M.set(role, handler, met, hidden)
  local text = source_of(role, met, hidden)
  rejected[role] = rejected[role] or new("double[1]")
  local chunk, meta = loadstring(text, "=perilune:driver"), view.meta(role)
  ones[role], manies[role] = chunk(
    cursor, live, slots, order, handler, setmetatable, meta, met, hidden, rejected[role], left, tap,
    ctx, weights, weight)
end

--- Returns how many events predicates have rejected so far: of the roles from `first` up to `last`.
function M.filtered(first, last)
  local sum = 0
  for role, count in pairs(rejected) do
    if role >= first and role <= last then sum = sum + count[0] end
  end
  return sum
end

--- Stops the walk after this many handled events; events that are hidden do not count.
function M.limit(events) left[0] = events end

--- Returns how many events remain until the limit.
function M.left() return left[0] end

--- Removes the handler of `role`; its events still count as handled.
function M.clear(role) ones[role], manies[role] = idle_one, idle end

--- Removes all handlers.
function M.clear_all() for role in pairs(ones) do M.clear(role) end end

-- `single` walks a run of one event at position `at`. `singles` walks runs of one event each, at
-- the positions `at` to `last`: the case in which roles alternate. `walk` walks the runs from `r`
-- on, the first of them from position `at`.
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

-- Returns the run, from `r` on, that contains position `at`; `n` if it is behind the last one.
local function run_of(r, at, n)
  while r < n and starts[r + 1] <= at do r = r + 1 end
  return r
end

-- Reports the current event, which failed in run `r` or a later one. Returns the position to
-- continue at, and its run.
local function fail(r, n, why)
  local at = cursor.at + 1
  r = run_of(r, at - 1, n)
  if failed(kinds[r], order[at - 1], why) then M.clear(kinds[r]) end
  return at, run_of(r, at, n)
end

--- Walks the events of the batch from position `at` on. The batch has `n` runs, each of one role,
-- from starts[r] up to starts[r + 1]. A single run is of `role` and ends with position `last`: this
-- function is interpreted, and reading these from the arrays would cost as much as handling ten
-- events.
-- Returns the position behind the last event handled: `stop` leaves the rest. Afterwards the cursor
-- points nowhere and no view is valid, because the ring's tail moves.
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
