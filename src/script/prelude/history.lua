--- The function `history`: the events of the run so far, and what happened between two of them.
--
-- Rust has a copy of every event before its handler runs. Printing a window of them visits each
-- copy in turn, so that the predicate of its role and the caller's condition can read it like the
-- event itself. A window that ends in the future waits until Rust reports that its last event was
-- read.
local ffi, view, native, exports = ...

local cast, pcall, type, error, pairs, ipairs, setmetatable, tostring =
  ffi.cast, pcall, type, error, pairs, ipairs, setmetatable, tostring
local slot_pointer = ffi.typeof "const perilune_slot *"
local role_of, plain, kept_slot = view.role_of, exports.plain, native.slot_of_kept

-- Maximum number of waiting windows. Further windows are counted and not printed.
local WAITING = 1024
local HOW = { before = "number", after = "number", where = "function", values = "table" }
local NONE = {}

local object, read
local waiting, number = {}, 0
local met_by = {}

--- Sets the predicate that runs before the handler of a role; nil for none.
function exports.choose_by(role, met) met_by[role] = met end

local function get(it, name) return it[name] end

local function time_of(it, what)
  if type(it) == "number" then return it end
  if type(it) == "table" then
    if role_of(it) then return it._time end
    local kept = kept_slot(it)
    if kept then return cast(slot_pointer, kept).time end
    local ok, time = pcall(get, it, "time")
    if ok and type(time) == "number" then return time end
  end
  error(("a window %s a time, an event or a state, not a %s"):format(what, type(it)), 3)
end

--- Returns a function that decides whether an event of a role is shown; nil if all are.
local function test_of(role, where)
  local met = met_by[role]
  if not met then return where end
  if not where then return met end
  return function(e) return met(e) and where(e) end
end

local function unchanged(why) return why end

local function print_window(window)
  local start, where = window.start, window.where
  number = number + 1
  local reaches = native.begin(number, window.from, start, window.stop, window.to, window.values)
  -- If the history starts later than the window, prints the copy of the window's first event that a
  -- pending state keeps.
  local kept = not reaches and window.kept and kept_slot(window.kept)
  if kept then
    kept = view.show(cast(slot_pointer, kept))
    if kept.time == start then exports.print_in_detail(kept, number, 0) end
  end
  -- Prints a record at most once, even if it is selected in several of its roles.
  local printed = false
  while true do
    local again = native.next()
    if again == nil then return end
    if not (again and printed) then
      local ok, shown, test = true, true, test_of(read.ev, where)
      if test then ok, shown = view.visit(read, test, unchanged) end
      if not ok then error(shown, 0) end
      if shown then exports.print_in_detail(read, number, read.time - start) end
      printed = shown
    end
  end
end

--- Passes to Rust when the first waiting window can be printed, and the earliest start of them all.
local function update_due()
  local due, from = math.huge, math.huge
  for i = 1, #waiting do
    if waiting[i].to < due then due = waiting[i].to end
    if waiting[i].from < from then from = waiting[i].from end
  end
  native.due(due, from)
end

--- Prints the windows whose last event came before `time`; called by the host between batches.
function exports.print_waiting(time)
  local ready, left = {}, {}
  for i = 1, #waiting do
    local window = waiting[i]
    if window.to < time then
      ready[#ready + 1] = window
    else
      left[#left + 1] = window
    end
  end
  waiting = left
  update_due()
  -- An error of one condition does not prevent the other windows from being printed.
  local failure
  for i = 1, #ready do
    local ok, why = pcall(print_window, ready[i])
    if not ok then failure = failure or why end
  end
  if failure then error(failure, 0) end
end

local function wait(window)
  if #waiting >= WAITING then native.full() return end
  waiting[#waiting + 1] = window
  update_due()
end

local function check(how)
  if type(how) ~= "table" then
    error("the options of a window are a table: { before =, after =, where =, values = }", 3)
  end
  for name, value in pairs(how) do
    local is = HOW[name]
    if not is then
      local text = "between has no '%s'; it has before, after, where and values"
      error(text:format(tostring(name)), 3)
    end
    if type(value) ~= is then
      error(("'%s' of between is a %s, not a %s"):format(name, is, type(value)), 3)
    end
  end
end

--- Returns the names and values of a heading, in order: { { name, value }… }.
local function plain_list(values)
  local list = {}
  for i, pair in ipairs(values) do
    local name = type(pair) == "table" and pair[1] or nil
    if type(name) ~= "string" then
      error("'values' of between is a list of names and values: { { \"delay_us\", 12.5 } }", 3)
    end
    list[i] = plain { name, pair[2] }
  end
  return list
end

--- Prints what happened from one event or time to another:
-- h:between(from, to [, { before =, after =, where =, values = }]).
local function between(self, from, to, how)
  if self ~= object then error("between is called with a colon: h:between(from, to)", 2) end
  if view.printing then error("a history cannot be read while an event is printed", 2) end
  if how then check(how) else how = NONE end
  local start, stop, ok, event = time_of(from, "begins with"), time_of(to, "ends with"), nil, nil
  if type(from) == "table" and not role_of(from) then ok, event = pcall(get, from, "event") end
  local window = {
    start = start, stop = stop, from = start - (how.before or 0), to = stop + (how.after or 0),
    where = how.where, values = how.values and plain_list(how.values),
    kept = kept_slot(from) and from or ok and kept_slot(event) and event or nil,
  }
  if window.to <= stop then return print_window(window) end
  -- By then the state of the kept event may have been reused.
  window.kept = nil
  wait(window)
end

--- history() → h, history { memory = "1MiB", before = 0 } → h
function exports.history(spec)
  if spec ~= nil and type(spec) ~= "table" then
    error("history takes nothing, or { memory = \"1MiB\" }", 2)
  end
  for name in pairs(spec or NONE) do
    if name ~= "memory" and name ~= "before" then
      error(("history has no '%s'; it has memory and before"):format(tostring(name)), 2)
    end
  end
  local before = spec and spec.before
  if before ~= nil and type(before) ~= "number" then
    error(("'before' of history is a number of nanoseconds, not a %s"):format(type(before)), 2)
  end
  local slot, why = native.open(spec and spec.memory, before)
  if not slot then error(why, 2) end
  if object then return object end
  read = cast(slot_pointer, slot)
  object = setmetatable({}, { __index = { between = between }, __metatable = false,
    __newindex = function() error("a history cannot be written", 2) end })
  return object
end
