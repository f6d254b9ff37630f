--- The functions of a prompt, and the environment of its lines, in which globals can be assigned.
--
-- A line runs as a coroutine. Operations that take time or open something are requests to the
-- session, made by yielding: `ask(what, …)`. The session therefore reads events with no Lua on its
-- stack, as a run does.
local env, exports, native, MARK = ...

local error, load, next, pairs, pcall, rawget, setmetatable, tostring, type, xpcall =
  error, load, next, pairs, pcall, rawget, setmetatable, tostring, type, xpcall
local create, running = coroutine.create, coroutine.running
-- The scripts' own: a line cannot yield from a function that the runtime called.
local yield = env.coroutine.yield
local concat, sort, rep, unpack = table.concat, table.sort, string.rep, unpack
local traceback = debug.traceback
local declare, entry_of, selectors = exports.evsel, exports.entry_of, exports.selectors

local line                                                 -- the coroutine of the current line
local touched = false                                      -- it defines something
local needed = false                                       -- others may need what it defines
local prints = false                                       -- an event has no own handler
local words = setmetatable({}, { __index = env })

local place, globals, order = env.scope(words, function()
  touched = true
  -- Handlers also assign globals, during any line.
  needed = needed or running() == line
end)

local function explain(why)
  if type(why) ~= "string" then why = tostring(why) end
  return traceback(why, 1)
end

local M = { globals = globals, words = words, env = env }

--- Compiles the text of a line to a function; messages number its lines from `number` on. Returns
-- nil and why if it does not compile.
function M.compile(text, name, number)
  local before = rep("\n", number - 1)
  local f, why = load(before .. "return " .. text, name, "t", place)
  if not f then f, why = load(before .. text, name, "t", place) end
  return f, why
end

--- Returns a coroutine that runs the function. It returns true and the function's results, or false
-- and why it failed.
function M.start(f)
  touched, needed, exports.in_source = false, false, false
  line = create(function() return xpcall(f, explain) end)
  return line
end

--- Returns whether the last line defines something, and whether other lines may need it, for
-- example because it assigned a global.
function M.touched() return touched, needed end

--- Returns the names of the globals in order, and whether an event has no own handler.
function M.definitions() return order, prints end

local function ask(what, ...)
  if running() ~= line then
    error("this function works only in lines of the prompt, not in handlers, timers "
      .. "or coroutines", 3)
  end
  local ok, a, b = yield(MARK, what, ...)
  -- A message that already has a line is passed on unchanged.
  if not ok then error(a, a:find "^[^%s:]+:%d+: " and 0 or 3) end
  return a, b
end

local function emit_it(e) env.emit(e) end

--- Declares an event and opens it, disabled.
local function opened(selector, options, handler)
  if type(selector) == "table" and type(rawget(selector, "text")) ~= "string" then
    error(
      "pass the name of an event, such as \"sched:sched_switch\"; "
      .. "to draw a table, enter its name alone or call top(…)",
      3)
  end
  if type(options) == "function" and handler == nil then handler, options = options, nil end
  if not handler and not (options and options.count) then handler = emit_it end
  local evs = { declare(selector, options, handler) }
  if evs[1] then
    if handler == emit_it then
      for _, ev in next, evs do entry_of(ev).emits = true end
    end
    ask "attach"
    prints = prints or handler == emit_it
    touched = true
  end
  return unpack(evs)
end

--- probe(selector [, options] [, handler]): opens an event, or a group in braces; its handler runs
--- from now on.
function words.probe(selector, options, handler)
  local evs = { opened(selector, options, handler) }
  for _, ev in next, evs do
    entry_of(ev).probe = true
    ev:on()
  end
  return unpack(evs)
end

--- evsel(selector [, options] [, handler]): as in a script; its events are enabled by `run`.
function words.evsel(selector, options, handler) return opened(selector, options, handler) end

words.evsel = exports.with_from(words.evsel, function(name, options, handler)
  local ev = exports.from(name, options, handler or type(options) ~= "function" and emit_it or nil)
  ask "attach"
  touched = true
  return ev
end)

--- Returns the events that are enabled only during `run`.
local function waiting()
  local list = {}
  for _, e in next, exports.evsels do
    if not (e.probe or e.gone or e.of_source) then list[#list + 1] = e.index end
  end
  return list
end

--- Raises an error unless `n` is a number of events that `what` can handle.
local function check_number(what, n)
  if type(n) ~= "number" or n < 1 or n % 1 ~= 0 then
    error(("%s takes a whole number of events, 1 or more, not %s"):format(what, tostring(n)), 3)
  end
end

local function has_events()
  for _, e in next, exports.evsels do
    if not e.gone then return true end
  end
  return false
end

local function deliver(time, count, list)
  local before = touched
  ask("deliver", time or false, count or false, list)
  touched = before
end

--- run("2s" | n | nothing): enables the events declared with evsel. run("NAME" [, options]) and
-- run(load(…)): start a monitor.
function words.run(what, options)
  if type(what) == "table" or type(what) == "string" and not what:find "^[%d.]+%a*$" then
    local before = touched
    local started = ask("start", what, options or {})
    touched = before
    return started
  end
  local is_count = type(what) == "number"
  if is_count then
    check_number("run(n)", what)
    if not has_events() then
      error("run(n) needs an event; declare one with evsel(\"sys:name\")", 2)
    end
  end
  deliver(not is_count and what or nil, is_count and what or nil, waiting())
end

--- Enables one event for a while, and closes it.
local function only(ev, time)
  local before = touched
  deliver(time, nil, { entry_of(ev).index })
  ask("close", { entry_of(ev).index })
  touched = before
end

--- show(selector [, { n=10, time=, …options of evsel }]): prints the next n events.
function words.show(selector, options)
  local passed, left, hidden, before = {}, 10, {}, touched
  for name, value in pairs(options or {}) do
    if name == "n" then left = value elseif name ~= "time" then passed[name] = value end
  end
  check_number("show: n", left)
  local ev = opened(selector, passed, function(e)
    if left > 0 and e._pid ~= hidden[e._event.id] then
      env.emit(e)
      left = left - 1
      if left == 0 then native.enough() end
    end
  end)
  for _, role in next, entry_of(ev).roles do hidden[role] = native.hidden_of(role) end
  only(ev, options and options.time)
  touched = before
end

--- count(selector [, key [, time="1s"]]): counts events by an expression over their fields.
function words.count(selector, key, time)
  local as
  local by, before = env.kv { { key or "event", as = function() return as end } }, touched
  local function of(e) return e._event.name end
  local ev = opened(selector, {}, function(e) by:add(of(e)) end)
  if key then
    local ok, made, reads_as = pcall(env.expr_of, key, ev)
    if not ok then
      ask("close", { entry_of(ev).index })
      error(made, 2)
    end
    of, as = made, reads_as
  end
  only(ev, time or native.usual_time or nil)
  touched = before
  return by
end

--- stat(list [, time="1s"]): counts of events, by CPU.
function words.stat(list, time)
  local evs, indexes, before = {}, {}, touched
  local all, why = selectors(tostring(list))
  if not all then error(why, 2) end
  for i, one in next, all do
    evs[i] = declare(one, { count = true })
    indexes[i] = entry_of(evs[i]).index
  end
  ask "attach"
  local counters = env.counters(evs)
  deliver(time or "1s", nil, indexes)
  ask "counts"
  ask("close", indexes)
  touched = before
  return counters
end

--- clear(): closes every event, timer and monitor. clear(table): clears the table.
function words.clear(what)
  if what ~= nil then
    ask("restart", what)
    return
  end
  local list = {}
  for _, e in next, exports.evsels do
    if not e.gone then list[#list + 1] = e.index end
  end
  ask("close", list)
  ask "clear"
end

--- top(table [, n=10]): draws the first n rows.
function words.top(what, n) ask("draw", what, n or 10) end

--- expr(source [, selector]): the value and type of an expression on constants, or its type for the
--- fields of events. With a table, the option of a monitor.
function words.expr(source, selector)
  if type(source) == "table" then return env.expr(source) end
  if selector then return (ask("expr", source, selector)) end
  local value, as = env.expr_of(source, "key")
  return ("%s (%s)"):format(tostring(value(0)), as)
end

for _, word in next, {
  "fields", "events", "load", "jobs", "cost", "lost", "save", "doc", "help",
} do
  words[word] = function(...) return (ask(word, ...)) end
end

for _, word in next, { "every", "printer" } do
  local own = env[word]
  words[word] = function(...)
    touched, needed = true, true
    return own(...)
  end
end

-- Replaces the handler: an event that is open always has one.
exports.methods.each = exports.methods.replace

-- A declared count is part of what the line defines.
function exports.changed() touched = touched or running() == line and not exports.in_source end

-- A change of an event by a line is part of what the line defines; a change by a handler is not.
-- It is applied at once, so that the line fails where the mistake is, and later requests of the
-- line do not fail because of it.
for name, at_once in next, {
  filter = true, matching = true, each = true, replace = true, on = false, off = false,
} do
  local own = exports.methods[name]
  exports.methods[name] = function(...)
    local typed = running() == line and not exports.in_source
    touched = touched or typed
    local ev = own(...)
    if typed and at_once then ask "attach" end
    return ev
  end
end

--- stop(n | "NAME"): ends a monitor that `run` started. Outside a line it is the scripts' own
--- function.
local end_run = env.stop
function words.stop(what)
  if running() == line then return (ask("stop", what)) end
  return end_run(what)
end

setmetatable(words, { __index = function(_, name)
  if name == "relation" then return env.require "relation" end
  local word = rawget(env, name)
  if word ~= nil then return word end
  if name == "quit" or name == "exit" then
    error(("no global '%s'; Ctrl-D ends the session, :help lists the commands"):format(name), 3)
  end
  local near = native.near(tostring(name), M.names "")
  -- The scripts' environment explains why it does not have this name.
  if near == "" then return env[name] end
  error(("no global '%s'%s"):format(tostring(name), near), 3)
end })

local function text_of(value, depth)
  if type(value) == "string" then return depth > 0 and ("%q"):format(value) or value end
  if type(value) ~= "table" or depth > 1 or tostring(value):sub(1, 6) ~= "table:" then
    return tostring(value)
  end
  local keys, parts, left = {}, {}, 40
  for key in next, value do keys[#keys + 1] = key end
  sort(keys, function(a, b)
    if type(a) == type(b) and (type(a) == "number" or type(a) == "string") then return a < b end
    return type(a) < type(b)
  end)
  for i, key in next, keys do
    if i > left then parts[#parts + 1] = ("… %d more"):format(#keys - left) break end
    local name = type(key) == "string" and key .. " = "
      or key ~= i and ("[%s] = "):format(tostring(key)) or ""
    parts[#parts + 1] = name .. text_of(value[key], depth + 1)
  end
  return #parts == 0 and "{}" or "{ " .. concat(parts, ", ") .. " }"
end

--- Marks the events from this role on as those of a monitor: they are enabled without `run`.
function M.adopt(role)
  for _, e in next, exports.evsels do
    if e.roles[1] and e.roles[1] >= role then e.probe = true end
  end
end

--- Returns whether a value is an event.
function M.is_evsel(value) return entry_of(value) ~= nil end

--- Returns the text of a value that is not a table of results.
function M.text_of(value) return text_of(value, 0) end

--- Returns the possible completions: all global names, or the names that the global `of` has.
function M.names(of)
  local names, value = {}, nil
  if of == "" then
    for _, t in next, { globals, words, env } do
      for name in next, t do names[#names + 1] = name end
    end
    return names
  end
  value = globals[of]
  if type(value) ~= "table" then return names end
  local methods = entry_of(value) and exports.methods or value
  for name in next, methods do if type(name) == "string" then names[#names + 1] = name end end
  return names
end

return M
