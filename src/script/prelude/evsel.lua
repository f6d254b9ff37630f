--- The function `evsel` and its result.
--
-- The Rust side (`declare`, `narrow`, `matching`, `switch`, `fields`) returns `nil, why` for
-- mistakes of a script; the error is raised here, at the script's own line.
local _, _, native, exports = ...

local declare, narrow, matching, switch, replaced, fields, compile = native.declare, native.narrow,
  native.matching, native.switch, native.replaced, native.fields, native.compile
local selectors, counted, fill = native.selectors, native.counted, native.fill

local type, error, setmetatable, ipairs, tostring, unpack =
  type, error, setmetatable, ipairs, tostring, unpack
local concat, loadstring = table.concat, loadstring

local Evsel = {}
local evsels = {}                                          -- in order: { ev =, handler =, roles = }
local part_of = setmetatable({}, { __mode = "k" })         -- ev → its entry

local function entry(ev, method)
  return part_of[ev] or error(("call it as ev:%s(…)"):format(method), 3)
end

local methods = {}

--- Handles this event with `handler` instead of `m.sample`.
function methods.each(ev, handler)
  local e = entry(ev, "each")
  if type(handler) ~= "function" then error("ev:each takes a function", 2) end
  e.handler = handler
  return ev
end

--- Replaces the handler of this event from now on; at a prompt also while the event is enabled.
-- Keeps the collected data.
function methods.replace(ev, handler)
  local e = entry(ev, "replace")
  if type(handler) ~= "function" then error("ev:replace takes a function", 2) end
  local ok, why = replaced(e.index)
  if not ok then error(why, 2) end
  e.handler = handler
  return ev
end

--- Adds a filter to the event, in the kernel as far as possible; several filters are ANDed. With
-- further arguments, `%s` stands for one of them quoted for the kernel, `%d` for a whole number;
-- without, the text is used as it is.
function methods.filter(ev, format, ...)
  local e = entry(ev, "filter")
  if type(format) ~= "string" then error("ev:filter takes a filter as text", 2) end
  local ok, why = narrow(e.index, format, ...)
  if not ok then error(why, 2) end
  return ev
end

--- Restricts the event to those whose `field` matches one of a comma-separated list of names and
-- globs, and none of those prefixed with `!`.
function methods.matching(ev, field, list)
  local ok, why = matching(entry(ev, "matching").index, tostring(field), tostring(list))
  if not ok then error(why, 2) end
  return ev
end

--- Enables the event again.
function methods.on(ev) switch(entry(ev, "on").index, true) return ev end

--- Disables the event.
function methods.off(ev) switch(entry(ev, "off").index, false) return ev end

Evsel.__index = function(ev, key)
  local method = methods[key]
  if method then return method end
  if key == "fields" then return fields(part_of[ev].index) end
  local text = "an evsel has no '%s'; it has name, names, id, title, fields, attr, freq, period, "
    .. "unit, each, replace, filter, matching, on, off"
  error(text:format(tostring(key)), 2)
end
Evsel.__metatable = false
Evsel.__tostring = function(ev) return "evsel " .. ev.name end

--- Returns a new evsel: its number, what the Rust side has returned, and its handler.
local function declared(index, info, attrs, handler)
  local ev = setmetatable({ name = info.name, id = info.id, attr = attrs,
    freq = info.freq or false, period = info.period or false, unit = info.unit or false,
    title = info.title or info.name:match ":([^:]+)$" or info.name, names = info.names }, Evsel)
  local e = { ev = ev, index = index, handler = handler, roles = info.roles, names = info.names,
    count = info.count }
  evsels[#evsels + 1] = e
  part_of[ev] = e
  return ev
end
exports.declared = declared

--- Declares one event. Errors are those of the script, `level` calls above.
local function declare_one(selector, options, handler, level)
  if options ~= nil and type(options) ~= "table" then
    error("evsel takes a selector, a table of options and a handler", level)
  end
  if handler ~= nil and type(handler) ~= "function" then
    error("the handler of an evsel is a function", level)
  end
  local index, info, attrs = declare(selector, options or {})
  -- A monitor whose events are taken.
  if index == nil and type(info) == "table" then index, info, attrs = exports.from_monitor(info) end
  if index == nil then
    if info then error(info, level) end
    return nil                                             -- optional and not available
  end
  return declared(index, info, attrs, handler)
end

--- Declares an event: `evsel(selector [, options] [, handler])`. A group in braces has an evsel for
-- each of its events; all of them are returned.
local function evsel(selector, options, handler)
  if type(options) == "function" and handler == nil then handler, options = options, nil end
  if type(selector) ~= "string" or not selector:find "^%s*{" then
    return (declare_one(selector, options, handler, 3))
  end
  local all, why = selectors(selector)
  if not all then error(why, 2) end
  local evs = {}
  for i, one in ipairs(all) do evs[i] = declare_one(one, options, handler, 3) end
  return unpack(evs, 1, #all)
end

--- Returns the value of `e._event`: the evsel's object, or an object per event for a glob.
local function event_of(e, i)
  if #e.roles == 1 then return e.ev end
  return setmetatable({ name = e.names[i], id = e.roles[i], title = e.names[i], attr = e.ev.attr },
    { __index = function(_, key) return e.ev[key] end, __metatable = false })
end

--- Returns what an expression applies to: the index of an evsel, or nil for "key".
local function index_of(of, name, what)
  if of == "key" then return nil end
  local part = part_of[of]
  if not part then error(("%s takes %s, and an evsel or \"key\""):format(name, what), 3) end
  return part.index
end

--- Compiles expressions into one function of the record: `exprs_of({source…}, ev)(e) → value…`.
-- Checks the names against the fields of `ev` now, not at the first event, and the `kind` of the
-- values, "number" or "text". The second result is a list of how each value is shown: "signed",
-- "unsigned", "pointer", "mixed" or "text".
function exports.exprs_of(sources, of, kind)
  if type(sources) ~= "table" then error("exprs_of takes a list of expressions", 2) end
  local f, as = compile(sources, index_of(of, "exprs_of", "a list of expressions"), kind)
  if not f then error(as, 2) end
  return f, as
end

--- Compiles one expression: `expr_of(source, ev)(e) → value`, or
-- `expr_of(source, "key")(key) → value`. With `mixed`, the values may share a column with
-- those of other integer types: 2^64 - 1 is another key than -1.
function exports.expr_of(source, of, kind, mixed)
  if source == nil then error("expr_of takes an expression", 2) end
  local f, as = compile({ tostring(source) }, index_of(of, "expr_of", "an expression"), kind, mixed)
  if not f then error(as, 2) end
  return f, as[1]
end

--- Raises an error for an option that is not one of `names`, which are separated by spaces.
local function check_options(what, options, names, level)
  local ok, why = native.check_options(what, options, names)
  if not ok then error(why, level and level + 1 or 0) end
end

-- The handler of a count in user space.
local COUNT = [[
local rows, add, key, values, label, met = ...
return function(e)
  $met
  local $keys = key(e)
  $count
end]]

--- Compiles a list of expressions of a count; raises an error at the line of the script.
local function compiled(list, e, kind, mixed)
  local f, types = compile(list, e.index, kind, mixed)
  if not f then error(types, 4) end
  return f, types
end

--- Returns the names of the values of a key, and the arguments for the columns of a table: without
--- a value for a column that is false.
local function key_names(plan)
  local names, columns = {}, {}
  for i = 1, plan.keys do
    local is_shown = plan.parameters[i].is == "key"
    if is_shown then names[#names + 1] = "k" .. i end
    columns[i] = is_shown and "k" .. i or "nil"
  end
  return concat(names, ", "), concat(columns, ", ")
end

--- Returns whether an event has a handler of the script. At a prompt, it is open with one that
-- emits.
function exports.is_handled(e) return e.handler and e.handler ~= e.counted and not e.emits end

--- Sets the handler that does in user space what is declared for the kernel, after what was
-- declared for the same event before.
function exports.count_with(e, handler)
  local before, last = e.counted, handler
  if before and e.handler == before then
    local ok, why = replaced(e.index)
    if not ok then error(why, 0) end
    handler = function(event) before(event) last(event) end
  end
  e.handler, e.counted = handler, handler
  if e.emits then e.emits = not replaced(e.index) end
end

--- Notes that these events are taken in one place: if one gets another handler, all need records.
function exports.take_together(list)
  for _, e in ipairs(list) do
    e.groups = e.groups or {}
    e.groups[#e.groups + 1] = list
  end
end

--- Counts the events of `ev` in `rows`, a kv with the plan `plan`: see `kv:count` in
-- meta/aggregate.lua. Declares it, so that the kernel may count, and sets the handler for counting
-- in user space. `adding(first, n, types)` returns the function that adds a record.
function exports.count_by(rows, plan, ev, of, adding)
  local e = part_of[ev]
  if not e or type(of) ~= "table" or of.key == nil then
    error("count takes an evsel and a table: rows:count(ev, { key = \"pid\" })", 3)
  end
  if exports.is_handled(e) then
    error("this event has a handler; call evsel again for the count", 3)
  end
  check_options("count", of, "key where sums first name kind mixed late_names", 3)
  local keys = type(of.key) == "table" and of.key or { of.key }
  local sums, first, mixed = of.sums or {}, of.first or 1, of.mixed and true or false
  if type(sums) ~= "table" then
    error("count: 'sums' takes a list of expressions: sums = { \"bytes\" }", 3)
  end
  if type(first) ~= "number" or first < 1 or first % 1 ~= 0 or first + #sums - 1 > plan.sums then
    error(("count: this kv has %d sums, the count adds %d of them from the %sth on")
      :format(plan.sums, #sums, tostring(first)), 3)
  end
  if #keys ~= plan.present then
    error(("this kv has %d key columns, the count has %d"):format(plan.present, #keys), 3)
  end
  if #keys == 0 then
    error("count needs at least one key: kv { \"pid\" }:count(ev, { key = \"pid\" })", 3)
  end
  local list, columns = key_names(plan)
  local call = ("add(%s%s)"):format(columns, #sums > 0 and ", values(e)" or "")
  local where = of.where
  if of.name then call = ("if %s then rows:name(%s, label(e)) end"):format(call, columns) end
  local make = loadstring(fill(COUNT, { keys = list, count = call,
    met = where and "if met(e) == 0 then return end" or "" }), "=perilune:count")
  local key = compiled(keys, e, of.kind, mixed)
  local values, types
  if #sums > 0 then values, types = compiled(sums, e, "number") end
  exports.count_with(e, make(rows, adding(first, #sums, types), key, values,
    of.name and compiled({ of.name }, e, "text"), where and compiled({ where }, e, "number")))
  if exports.changed then exports.changed() end
  counted(e.index, { table = plan.id, keys = keys, sums = sums, first = first, name = of.name,
    where = where, mixed = mixed, late_names = of.late_names and true or false })
end

--- Returns whether the handler of an event only counts, and those of the events that are taken
-- together with it.
local function only_counts(e, seen)
  if seen[e] then return true end
  seen[e] = true
  if not e.counted or e.handler ~= e.counted then return false end
  for _, group in ipairs(e.groups or {}) do
    for _, other in ipairs(group) do
      if not only_counts(other, seen) then return false end
    end
  end
  return true
end

--- The same for the evsel with this index.
function exports.only_counts(index)
  for _, e in ipairs(evsels) do
    if e.index == index then return only_counts(e, {}) end
  end
  return false
end

exports.check_options = check_options
exports.evsel = evsel
exports.selectors = selectors
exports.evsels = evsels
exports.event_of = event_of
exports.methods = methods
exports.entry_of = function(ev) return ev ~= nil and part_of[ev] or nil end
exports.index_of = function(ev) local e = part_of[ev] return e and e.index end
