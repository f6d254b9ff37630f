--- Relates events of successive stages by key: stages `A,B`, `C`, `D` give pairs A=>C, B=>C, C=>D.
-- A start waits for its end in a `pending`: bounded, dropped and counted if events are lost, its
-- task ends, or it waits for longer than `opt.max_age`. An end consumes its start; a second start
-- with the same key replaces the first. An event of two stages is an end first, then a start.
-- Ignored: thread 0, which is the idle task of every CPU; and a wakeup of the task that its CPU is
-- running anyway, which is known if every switch is among the events and whole CPUs are watched.
local delays, key_types, recursion = require "delays", require "key", require "recursion"
local still_open = require "still_open"

local relation = {}

-- Keys that are threads. A start is dropped when its thread ends. With -p, events are selected by
-- the thread in the field of ABOUT, not by the thread that raised them.
local OWN = { _tid = true, __pid = true }
local ABOUT = { pid = true, prev_pid = true, next_pid = true }
local WAKEUP = { ["sched:sched_wakeup"] = true, ["sched:sched_waking"] = true }
local SWITCH = "sched:sched_switch"

--- Returns the key of events without key=: -k, else the thread with -p, else the CPU.
local function default_key(opt) return opt.key or (per_thread() and "_tid" or "_cpu") end

--- Returns the key of a selector: its expression, the value that is not a key (nil if all are), and
--- the field with the thread that the event is about, if the key is that field.
function relation.key(s, opt)
  local key = s.attr.key or default_key(opt)
  return key, (OWN[key] or ABOUT[key]) and 0 or nil, ABOUT[key] and key or nil
end

--- Declares the event of a selector. Calls `handler(e, key)` for each event, except for the key 0
--- of threads: it is the idle task of every CPU.
function relation.watch(s, opt, handler)
  local text, none, task = relation.key(s, opt)
  local ev = evsel(s, { task = some_tasks() and task or nil })
  local key = expr_of(text, ev)
  ev:each(function(e)
    local k = key(e)
    if k ~= none then handler(e, k) end
  end)
end

--- Returns whether a filter only compares numbers, so that it has the same meaning in C.
-- Two evsels of one event each get a copy of the records they share, at about 20 ns per record. If
-- one role of an event takes all records, roles with a plain filter share its evsel and evaluate
-- their filter as an expression.
local function is_plain(filter, fields)
  for word in filter:gmatch "[%a_][%w_]*" do
    if not fields[word] then return false end
  end
  return filter:match "^[%w_%s&|()=!<>]+$" ~= nil
end

--- Returns the attributes of a selector that change how its event is opened, and the options of a
--- monitor, as a key. Selectors
--- with different keys cannot share an evsel.
local function opened_as(s)
  local attr = s.attr
  return ("\0%s\0%s\0%s\0%s\0%s\0%s"):format(attr.cpus or "", attr.max_stack or "",
    attr.alias or "", attr.freq or "", attr.period or "", s.options or "")
end
local ANYHOW = opened_as { attr = {} }

--- Returns the roles of all events of all stages, in stage order, and the stages.
local function roles_of(groups, opt, on)
  local roles, stages, by_name = {}, {}, {}
  for i, group in ipairs(groups) do
    local stage = { threads = i < #groups }
    stages[i] = stage
    for _, s in ipairs(group) do
      local typed = s
      if type(s) == "string" then s = { name = s, attr = {} } end
      if not s.attr.untraced then
        local key = on.key and on.key(s) or s.attr.key or default_key(opt)
        local event = by_name[s.name] or { stack = false, whole = false }
        local role = {
          typed = typed, selector = s, name = s.name, filter = s.filter, event = event,
          key = key, thread = OWN[key] or ABOUT[key], number = #roles + 1,
          from = stages[i - 1], to = i < #groups and stage or nil, stage = stage,
          all_tasks = i == #groups and on.all_tasks,
        }
        by_name[s.name], roles[#roles + 1] = event, role
        event.stack = event.stack or s.stack or on.stacks and i == 1
        event.whole = event.whole or not s.filter and opened_as(s) == ANYHOW
        stage.threads = stage.threads and role.thread
      end
    end
  end
  return roles, stages
end

--- Returns the evsel of a role, and if it gets more events than the role, the expression that is
--- not 0 for the events of the role. Reuses a declared evsel where possible.
local function evsel_of(role, declared, optional)
  local watched, task = some_tasks(), ABOUT[role.key] and role.key or nil
  local how = opened_as(role.selector)
  local function declare(typed, filter)
    local same = role.name .. "\0" .. (watched and task or "") .. how .. "\0" .. (filter or "")
    local d = declared[same]
    if not d then
      local ev = evsel(typed, {
        stack = role.event.stack, task = task, all_tasks = role.all_tasks or nil,
        optional = optional,
      })
      if not ev then return end
      d = { ev = ev, whole = not filter and how == ANYHOW, keys = {} }
      declared[same], declared[#declared + 1] = d, d
    end
    return d
  end
  if role.filter and role.event.whole and not watched and how == ANYHOW then
    local all = declare(role.name)
    if is_plain(role.filter, all.ev.fields) then
      return all, ("(%s) != 0"):format(role.filter)
    end
  end
  return declare(role.typed, role.filter)
end

--- Returns the handler of one role.
local function handler_of(role, ev, opt, on, running)
  local id, none = role.number, role.thread and 0 or on.none
  local key, as = expr_of(role.key, ev)
  role.as = as
  local waits, open = role.from and role.from.open, role.to and role.to.open
  local pair, single, start = on.pair, on.single, on.start
  local value = expr_of(open and on.value and on.value(role.selector, ev) or "0", ev)

  local function ends(e)
    local k = key(e)
    if k == none then return end
    local s = waits:close(k, e)
    if s then pair(s, e, id, k) elseif single then single(e, id, k) end
  end
  local function starts(e)
    local k = key(e)
    if k == none then return end
    local v = value(e)
    open:open(k, e, id, v)
    if start then start(e, id, k, v) end
  end
  local function starts_unless_running(e) if running[e.target_cpu] ~= e.pid then starts(e) end end

  if not open then return ends end
  local is_wakeup = WAKEUP[role.name] and role.key == "pid"
  local begins = running and is_wakeup and starts_unless_running or starts
  if not waits then return begins end
  return function(e) ends(e) begins(e) end
end

--- Returns whether the task that each CPU runs is known: every switch of whole CPUs is an event.
local function has_every_switch(roles)
  for _, role in ipairs(roles) do
    if role.name == SWITCH and role.event.whole and not some_tasks() then return true end
  end
  return false
end

--- Opens the untraced events, for the history only. Returns the function that returns whether an
--- event has a key. An event has one key per role; an untraced event has key=, or if it has the
--- fields, that of -k.
local function declare_around(groups, opt, declared)
  local keys_of = {}
  local function add(ev, key)
    local ok, f = pcall(expr_of, key, ev)
    -- `attr` identifies the evsel: its table is unique, even if a glob makes it several events.
    local keys = keys_of[ev.attr] or {}
    keys_of[ev.attr], keys[#keys + 1] = keys, ok and f or nil
  end
  for _, d in ipairs(declared) do
    for _, key in ipairs(d.keys) do add(d.ev, key) end
  end
  for _, group in ipairs(groups) do
    for _, s in ipairs(group) do
      if type(s) == "table" and s.attr.untraced then
        local ev = evsel(s, function() end)
        add(ev, s.attr.key or default_key(opt))
      end
    end
  end
  return function(e, wanted)
    for _, key in ipairs(keys_of[e._event.attr] or {}) do
      if key(e) == wanted then return true end
    end
    return false
  end
end

--- Declares the events of `groups`, a list of stages, each a list of selectors or names. Calls
--- `on.pair(start, e, to, key)` for each pair, with `start.delay`, `start.time`, `start.value` and,
--- with `on.keep`, `start.event`. `start.from` and `to` are the numbers of the events, as typed.
--- Returns the function that returns the name for such a number; with `on.around`, which also opens
--- untraced events, the function that returns whether an event has a key; and the type of the keys
--- (`as` of a column).
--- Sets `on.stages`, for the starts that have no end yet.
--- Optional: `on.start(e, from, key, value)`; `on.single(e, to, key)` for an end without a start;
--- the expressions `on.key(selector)` and `on.value(selector, ev)`; `on.stacks`, whether starts
--- take their stacks; `on.none`, a value that is not a key; `on.all_tasks`, whether the last stage
--- is taken from all tasks; `on.optional`, whether events may be missing on this machine.
function relation.stages(groups, opt, on)
  local roles, stages = roles_of(groups, opt, on)
  on.stages = stages
  for i = 1, #stages - 1 do
    local kind = stages[i].threads and "tid" or "any"
    stages[i].open = pending { "from", "value", key = kind, keep = on.keep, age = opt.max_age }
  end
  on.waits = stages[1].open
  local running, declared, names = has_every_switch(roles) and per_cpu(-1), {}, {}
  -- Last stage first, so that an event of two stages is an end before it is a start.
  for i = #roles, 1, -1 do
    local role = roles[i] ---@type table
    names[i] = role.name
    -- Each stage needs at least one event: its first event is required if no later one exists.
    local is_first = not (roles[i - 1] and roles[i - 1].stage == role.stage)
    local optional = on.optional and (role.stage.there or not is_first)
    local d, met = evsel_of(role, declared, optional)
    if d then
      local handler, before = handler_of(role, d.ev, opt, on, running), d.handler
      if met then
        local all, is_met = handler, expr_of(met, d.ev, "number")
        handler = function(e) if is_met(e) ~= 0 then all(e) end end
      end
      d.keys[#d.keys + 1] = role.key
      d.handler, role.stage.there = before and function(e) before(e) handler(e) end or handler, true
    end
  end
  for _, d in ipairs(declared) do
    local handler = d.handler
    if running and d.ev.name == SWITCH and d.whole then
      d.handler = function(e) running[e._cpu] = e.next_pid handler(e) end
    end
    d.ev:each(d.handler)
  end
  local has_key, as = on.around and declare_around(groups, opt, declared), nil
  for _, role in ipairs(roles) do as = key_types.shared(as, role.as) end
  return function(number) return names[number] end, has_key, as
end

--- Notes that untraced events are not opened, if there are any.
function relation.note_untraced(groups)
  for _, group in ipairs(groups) do
    for _, s in ipairs(group) do
      if s.attr.untraced then
        return note("%s is untraced and therefore not opened: only --detail shows it", s.name)
      end
    end
  end
end

--- Returns the columns of a pair, and of its key with --perins. The first result is a function that
--- must be called with the results of `relation.stages`; the last one formats a key.
local function columns_of(opt)
  local names, as
  local function draw(number) return names(number) end
  local function named(f, _, of) names, as = f, of end
  local key = opt.key or opt.event[1][1].attr.key or (per_thread() and "tid" or "cpu")
  local function shown(k)
    local is_large = type(k) == "string" or k < 0
    return (as == "pointer" or as == "unsigned" and is_large) and hex(k) or k
  end
  local key_column = perins { key, as = function() return as end }
  return named, key_column, { "start", draw, arrow = true }, { "end", draw }, key, shown
end

--- Returns the roles of two stages if a pair needs nothing but a key: no history, no state besides
--- the start. `times:between` can then take them, and the kernel may.
local function plain_roles(groups, opt)
  if #groups ~= 2 or opt.than or opt.only_than or opt.heatmap or opt.perfetto then return nil end
  local roles, stages = roles_of(groups, opt, {})
  for _, role in ipairs(roles) do
    local is_wakeup = WAKEUP[role.name] and role.key == "pid"
    if is_wakeup and has_every_switch(roles) then return nil end
  end
  return roles, stages[1].threads
end

--- Declares the pairs of two stages, whose delays go to `times` and `spread`. Returns the results
--- of `relation.stages` but for `has_key`, and the pending of the starts.
local function plain_pairs(roles, threads, opt, times, spread)
  local declared, names, sides, as = {}, {}, { {}, {} }, nil
  for i = #roles, 1, -1 do
    local role = roles[i]
    local d, where = evsel_of(role, declared)
    if role.thread then
      where = (where and where .. " && " or "") .. ("(%s) != 0"):format(role.key)
    end
    names[i] = role.name
    table.insert(sides[role.from and 2 or 1], { d.ev, key = role.key, where = where,
      rows = role.from and { role.key, [3] = tostring(i) } or { [2] = tostring(i) } })
    as = key_types.shared(select(2, expr_of(role.key, d.ev)), as)
  end
  local open = times:between(sides[1], sides[2], { threads = threads, age = opt.max_age,
    nested = recursion.NOTE, histogram = spread and { spread, columns = { 2, 3 } } })
  return function(number) return names[number] end, as, open
end

--- Measures how long each pair took: a table and, with `opt.histogram`, a histogram. `opt.than`
--- prints the two events of each longer pair, `opt.detail` all events around them; `opt.only_than`
--- does not count other pairs. `look` contains further fields for `latency`. This function and the
--- following ones return a function that returns the results at the end of a run.
function relation.delay(groups, opt, look)
  local only = opt.only_than or -math.huge
  local named, key, from, to, called, shown = columns_of(opt)
  local spec, than = { key, from, to }, opt.than or opt.only_than
  for name, value in pairs(look or {}) do spec[name] = value end
  local name, has_key, as, is_thread
  local function spread_of()
    local columns = { from, to, title = "delay", unit = "ns", metric = "none" }
    return opt.histogram and hist.log2(columns) or nil
  end
  local roles, threads = plain_roles(groups, opt)
  if roles then
    local times, spread, open = latency(spec), spread_of(), nil
    name, as, open = plain_pairs(roles, threads, opt, times, spread)
    named(name, nil, as)
    return function()
      local columns = { { called, shown }, { "start", name } }
      return times, spread, still_open.report("no end yet", columns, open,
        function(k, s) return { k, s.column2 } end)
    end
  end
  local pairs_named = {} ---@type table<number, string?>
  local add, times = delays.table(opt, spec, {
    span = function(_, e, delay, k, first, number)
      local pair = first * 1000 + number
      local text = pairs_named[pair] or name(first) .. " => " .. name(number)
      pairs_named[pair] = text
      span { name = text, delay = delay, tid = is_thread and k or e._tid,
        fields = { [called] = shown(k) } }
    end,
    has_key = function(e, k) return has_key(e, k) end,
    heading = function(k, first, number)
      return { { "start", name(first) }, { "end", name(number) }, { called, shown(k) } }
    end,
  })
  local spread = spread_of()
  local on, paired = { keep = than, around = than and opt.detail }, nil
  on.start, paired, on.single = recursion.watch(on)
  function on.pair(start, e, number, k)
    paired()
    local delay, first = start.delay, start.from
    if delay <= only then return end
    add(start, e, delay, k, first, number)
    if spread then spread:add(delay, first, number) end
  end
  name, has_key, as = relation.stages(groups, opt, on)
  is_thread = on.stages[1].threads
  named(name, has_key, as)
  return function()
    return times, spread, still_open.of_stages(on.stages, { called, shown }, { "start", name })
  end
end

--- Counts events with a partner and events without one (yet), as starts and as ends, since the
--- start of the run.
function relation.pair(groups, opt)
  local named, key, event = columns_of(opt)
  local sums = { { "unpaired", first = true }, "paired" }
  local seen = kv { key, { "event", event[2] }, "as", sums = sums, keep = true }
  named(relation.stages(groups, opt, {
    start = function(_, number, k) seen:add(k, number, "start", 1, 0) end,
    single = function(_, number, k) seen:add(k, number, "end", 1, 0) end,
    pair = function(start, _, number, k)
      seen:add(k, start.from, "start", -1, 1)
      seen:add(k, number, "end", 0, 1)
    end,
  }))
  return function() return seen end
end

--- Sums the memory that was allocated, and how much of that was freed, and lists the ten stacks
--- that allocated most. The memory is ptr=, the key, or the field `ptr`; its size is size=, or the
--- field `bytes_alloc`. With `optional`, events that this machine does not have are skipped.
function relation.kmemprof(groups, opt, optional)
  local names
  local event = { "event", function(number) return names(number) end }
  local bytes = kv { event, sums = { "calls", { "bytes", first = true } } }
  local sums = { { "bytes", first = true }, "calls" }
  local stacks = kv { { "stack", stack_text }, sums = sums, top = 10 }
  names = relation.stages(groups, opt, {
    -- Frees are taken from all tasks: the kernel frees much memory after RCU, in a worker.
    stacks = true, none = 0, optional = optional, all_tasks = true,
    key = function(s) return s.attr.ptr or s.attr.key or opt.key or "ptr" end,
    value = function(s) return s.attr.size or "bytes_alloc" end,
    start = function(e, number, _, size)
      bytes:add(number, 1, size)
      stacks:add(e._stack, size, 1)
    end,
    pair = function(start, _, number) bytes:add(number, 1, start.value) end,
  })
  return function() return bytes, stacks end
end

--- Measures system calls; `groups` are raw_syscalls:sys_enter and raw_syscalls:sys_exit.
relation.syscalls = require "syscall_delays"

return relation
