--- The words of a prompt, and the place where its lines are run: new globals may be assigned there.
--
-- A line runs as a coroutine. What takes time or opens something, it asks of the session by yielding: `ask(what, …)`. So the
-- session carries events with no Lua on its stack, as a run does.
local env, exports, native, MARK = ...

local error, load, next, pairs, pcall, rawget, setmetatable, tostring, type, xpcall =
  error, load, next, pairs, pcall, rawget, setmetatable, tostring, type, xpcall
local create, running = coroutine.create, coroutine.running
-- The scripts' own: a line cannot yield from a function that the runtime has called.
local yield = env.coroutine.yield
local concat, sort, rep = table.concat, table.sort, string.rep
local traceback = debug.traceback
local declare, entry_of = exports.evsel, exports.entry_of

local line                                                 -- the coroutine of the line that runs
local touched = false                                      -- whether it defines something
local needed = false                                       -- whether other lines may need what it defines
local prints = false                                       -- whether an event was declared without a handler
local words = setmetatable({}, { __index = env })

local place, globals, order = env.scope(words, function()
  touched = true
  -- Handlers assign, too, whichever line runs meanwhile.
  needed = needed or running() == line
end)

local function explain(why)
  if type(why) ~= "string" then why = tostring(why) end
  return traceback(why, 1)
end

local M = { globals = globals, words = words, env = env }

--- A function of a line's text, whose first line has that number in messages; or nil, and why.
function M.compile(text, name, number)
  local before = rep("\n", number - 1)
  local f, why = load(before .. "return " .. text, name, "t", place)
  if not f then f, why = load(before .. text, name, "t", place) end
  return f, why
end

--- A coroutine that runs the function; its results are true and what it returns, or false and why it failed.
function M.start(f)
  touched, needed = false, false
  line = create(function() return xpcall(f, explain) end)
  return line
end

--- Whether the line that ran last defines something, and whether other lines may need it: it assigned a global, for one.
function M.touched() return touched, needed end

--- The names of the globals, in order, and whether an event has no handler of its own.
function M.definitions() return order, prints end

local function ask(what, ...)
  if running() ~= line then error("this word is for lines of the prompt, not for handlers, timers or coroutines", 3) end
  local ok, a, b = yield(MARK, what, ...)
  -- What names its own line is told as it is.
  if not ok then error(a, a:find "^[^%s:]+:%d+: " and 0 or 3) end
  return a, b
end

local function emit_it(e) env.emit(e) end

--- Declares an event and opens it, off.
local function opened(selector, wishes, handler)
  if type(selector) == "table" and type(rawget(selector, "text")) ~= "string" then
    error("an event is asked for by its name, such as \"sched:sched_switch\"; a table is drawn by its own name alone, or by top(…)", 3)
  end
  if type(wishes) == "function" and handler == nil then handler, wishes = wishes, nil end
  if not handler and not (wishes and wishes.count) then handler = emit_it end
  local ev = declare(selector, wishes, handler)
  if ev then
    ask "attach"
    prints = prints or handler == emit_it
    touched = true
  end
  return ev
end

--- probe(selector [, wishes] [, handler]): opens an event, whose handler runs from now on.
function words.probe(selector, wishes, handler)
  local ev = opened(selector, wishes, handler)
  if ev then
    entry_of(ev).probe = true
    ev:on()
  end
  return ev
end

--- evsel(selector [, wishes] [, handler]): as in a script; its events come while `run` runs.
function words.evsel(selector, wishes, handler) return opened(selector, wishes, handler) end

--- The events that come only while something is run.
local function waiting()
  local list = {}
  for _, e in next, exports.evsels do
    if not (e.probe or e.gone) then list[#list + 1] = e.index end
  end
  return list
end

local function carry(time, count, list)
  local before = touched
  ask("carry", time or false, count or false, list)
  touched = before
end

--- run("2s" | n | nothing): lets what was declared with evsel run. run("NAME" [, options]) and run(load(…)): starts a monitor.
function words.run(what, options)
  if type(what) == "table" or type(what) == "string" and not what:find "^[%d.]+%a*$" then
    local before = touched
    local told = ask("start", what, options or {})
    touched = before
    return told
  end
  if type(what) == "number" then carry(nil, what, waiting()) else carry(what, nil, waiting()) end
end

--- Runs one event for a while, and takes it away.
local function only(ev, time)
  local before = touched
  carry(time, nil, { entry_of(ev).index })
  ask("close", { entry_of(ev).index })
  touched = before
end

--- show(selector [, { n=10, time=, …wishes of evsel }]): prints the next events.
function words.show(selector, options)
  local wishes, left, hidden, before = {}, 10, {}, touched
  for name, value in pairs(options or {}) do
    if name == "n" then left = value elseif name ~= "time" then wishes[name] = value end
  end
  local ev = opened(selector, wishes, function(e)
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

--- count(selector [, key [, time="1s"]]): a count by an expression over the event's fields.
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
  for name in tostring(list):gmatch "[^,%s]+" do
    local ev = declare(name, { count = true })
    evs[#evs + 1], indexes[#indexes + 1] = ev, entry_of(ev).index
  end
  ask "attach"
  local counters = env.counters(evs)
  carry(time or "1s", nil, indexes)
  ask "counts"
  ask("close", indexes)
  touched = before
  return counters
end

--- clear(): takes every event, timer and monitor away. clear(table): begins it anew.
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

--- top(table [, n=10]): draws its first rows.
function words.top(what, n) ask("draw", what, n or 10) end

for _, word in next, { "fields", "events", "load", "jobs", "cost", "lost", "save", "doc" } do
  words[word] = function(...) return (ask(word, ...)) end
end

for _, word in next, { "every", "printer" } do
  local own = env[word]
  words[word] = function(...)
    touched, needed = true, true
    return own(...)
  end
end

-- An event that is open has a handler: another one replaces it.
exports.methods.each = exports.methods.replace

-- What a line changes about an event belongs to what it defines; what a handler changes does not. It is made true at once, so that
-- the line ends where the mistake stands, and nothing that it opens later is refused for it.
for name, at_once in next, { filter = true, matching = true, each = true, replace = true, on = false, off = false } do
  local own = exports.methods[name]
  exports.methods[name] = function(...)
    local typed = running() == line
    touched = touched or typed
    local ev = own(...)
    if typed and at_once then ask "attach" end
    return ev
  end
end

--- stop(n): ends a monitor that run started. Elsewhere than in a line, it is the word of scripts.
local end_run = env.stop
function words.stop(what)
  if running() == line and type(what) == "number" then return (ask("stop", what)) end
  return end_run(what)
end

setmetatable(words, { __index = function(_, name)
  if name == "relation" then return env.require "relation" end
  local word = rawget(env, name)
  if word ~= nil then return word end
  local near = native.near(tostring(name), M.names "")
  -- The scripts' own tells why it does not have what a script may miss.
  if near == "" then return env[name] end
  error(("no global '%s'%s"):format(tostring(name), near), 3)
end })

local function text_of(value, depth)
  if type(value) == "string" then return depth > 0 and ("%q"):format(value) or value end
  if type(value) ~= "table" or depth > 1 or tostring(value):sub(1, 6) ~= "table:" then return tostring(value) end
  local keys, parts, left = {}, {}, 40
  for key in next, value do keys[#keys + 1] = key end
  sort(keys, function(a, b)
    if type(a) == type(b) and (type(a) == "number" or type(a) == "string") then return a < b end
    return type(a) < type(b)
  end)
  for i, key in next, keys do
    if i > left then parts[#parts + 1] = ("… %d more"):format(#keys - left) break end
    local name = type(key) == "string" and key .. " = " or key ~= i and ("[%s] = "):format(tostring(key)) or ""
    parts[#parts + 1] = name .. text_of(value[key], depth + 1)
  end
  return #parts == 0 and "{}" or "{ " .. concat(parts, ", ") .. " }"
end

--- The events from a role on are a monitor's: they come without `run`.
function M.adopt(role)
  for _, e in next, exports.evsels do
    if e.roles[1] and e.roles[1] >= role then e.probe = true end
  end
end

--- Whether a value is an event.
function M.is_evsel(value) return entry_of(value) ~= nil end

--- What stands for a value that is no table of results.
function M.text_of(value) return text_of(value, 0) end

--- The names that may follow: those of the words, of what was assigned, or of what a value has.
function M.names(of)
  local names, value = {}, nil
  if of == "" then
    for _, t in next, { globals, words, env } do for name in next, t do names[#names + 1] = name end end
    return names
  end
  value = globals[of]
  if type(value) ~= "table" then return names end
  local methods = entry_of(value) and exports.methods or value
  for name in next, methods do if type(name) == "string" then names[#names + 1] = name end end
  return names
end

return M
