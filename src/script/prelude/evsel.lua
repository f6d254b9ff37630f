--- The word `evsel` and what it gives.
--
-- The Rust side (`declare`, `narrow`, `matching`, `switch`, `fields`) answers `nil, why` for what a script may get wrong, and
-- the error is raised here at the script's own line.
local declare, narrow, matching, switch, replaced, fields, compile, exports = ...

local type, error, setmetatable, pairs, select = type, error, setmetatable, pairs, select

local Evsel = {}
local evsels = {}                                          -- in the order declared: { ev =, handler =, roles = }
local part_of = setmetatable({}, { __mode = "k" })         -- ev → its entry

local function entry(ev, word)
  return part_of[ev] or error(("call it as ev:%s(…)"):format(word), 3)
end

local methods = {}

--- Handles this event with `handler` instead of `m.sample`.
function methods.each(ev, handler)
  local e = entry(ev, "each")
  if type(handler) ~= "function" then error("ev:each takes a function", 2) end
  e.handler = handler
  return ev
end

--- Handles this event with another function from now on: at a prompt also while it comes. What was collected stays.
function methods.replace(ev, handler)
  local e = entry(ev, "replace")
  if type(handler) ~= "function" then error("ev:replace takes a function", 2) end
  local ok, why = replaced(e.index)
  if not ok then error(why, 2) end
  e.handler = handler
  return ev
end

--- Narrows the event, in the kernel as far as it can; calls are ANDed. With further arguments, `%s` is one of them quoted for
--- the kernel, `%d` a whole number; without, the text is taken as it is.
function methods.filter(ev, format, ...)
  local e = entry(ev, "filter")
  if type(format) ~= "string" then error("ev:filter takes a filter as text", 2) end
  local ok, why = narrow(e.index, format, ...)
  if not ok then error(why, 2) end
  return ev
end

--- Narrows the event to those whose `field` is one of a comma list of names and globs, and none of those behind a `!`.
function methods.matching(ev, field, list)
  local ok, why = matching(entry(ev, "matching").index, tostring(field), tostring(list))
  if not ok then error(why, 2) end
  return ev
end

--- Lets the event come again.
function methods.on(ev) switch(entry(ev, "on").index, true) return ev end

--- Keeps the event from coming.
function methods.off(ev) switch(entry(ev, "off").index, false) return ev end

Evsel.__index = function(ev, key)
  local method = methods[key]
  if method then return method end
  if key == "fields" then return fields(part_of[ev].index) end
  error(("an evsel has no '%s'; it has name, id, title, fields, attr, freq, period, each, replace, filter, matching, on, off"):format(tostring(key)), 2)
end
Evsel.__metatable = false
Evsel.__tostring = function(ev) return "evsel " .. ev.name end

--- Declares an event: `evsel(selector [, wishes] [, handler])`.
local function evsel(selector, wishes, handler)
  if type(wishes) == "function" and handler == nil then handler, wishes = wishes, nil end
  if wishes ~= nil and type(wishes) ~= "table" then error("evsel takes a selector, a table of wishes and a handler", 2) end
  if handler ~= nil and type(handler) ~= "function" then error("the handler of an evsel is a function", 2) end
  local index, told, attrs = declare(selector, wishes or {})
  if index == nil then
    if told then error(told, 2) end
    return nil                                             -- optional, and not on this machine
  end
  local ev = setmetatable({ name = told.name, id = told.id, attr = attrs,
    freq = told.freq or false, period = told.period or false,
    title = told.title or told.name:match ":([^:]+)$" or told.name }, Evsel)
  local e = { ev = ev, index = index, handler = handler, roles = told.roles, names = told.names, count = told.count }
  evsels[#evsels + 1] = e
  part_of[ev] = e
  return ev
end

--- What `e._event` is: the evsel's own object, or for one of a glob's events an object of its own.
local function event_of(e, i)
  if #e.roles == 1 then return e.ev end
  return setmetatable({ name = e.names[i], id = e.roles[i], title = e.names[i], attr = e.ev.attr },
    { __index = function(_, key) return e.ev[key] end, __metatable = false })
end

--- What an expression is of: an evsel, as its index, or "key".
local function index_of(of, word, what)
  if of == "key" then return nil end
  local part = part_of[of]
  if not part then error(("%s takes %s, and an evsel or \"key\""):format(word, what), 3) end
  return part.index
end

--- Compiles expressions into one function of the record: `exprs_of({source…}, ev)(e) → value…`. The names are
--- checked against the fields of `ev` now, not at the first event, and so is the `kind` of value, "number" or "text".
--- The second result is a list of what each value reads as: "signed", "unsigned", "pointer",
-- "mixed" or "text".
function exports.exprs_of(sources, of, kind)
  if type(sources) ~= "table" then error("exprs_of takes a list of expressions", 2) end
  local f, as = compile(sources, index_of(of, "exprs_of", "a list of expressions"), kind)
  if not f then error(as, 2) end
  return f, as
end

--- Compiles one expression: `expr_of(source, ev)(e) → value`, or `expr_of(source, "key")(key) → value`.
--- With `mixed`, values beside which others of any integer type stand: 2^64 - 1 is another key than
-- -1.
function exports.expr_of(source, of, kind, mixed)
  if source == nil then error("expr_of takes an expression", 2) end
  local f, as = compile({ tostring(source) }, index_of(of, "expr_of", "an expression"), kind, mixed)
  if not f then error(as, 2) end
  return f, as[1]
end

exports.evsel = evsel
exports.evsels = evsels
exports.event_of = event_of
exports.methods = methods
exports.entry_of = function(ev) return ev ~= nil and part_of[ev] or nil end
exports.index_of = function(ev) local e = part_of[ev] return e and e.index end
