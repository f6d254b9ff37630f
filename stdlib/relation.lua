--- Relates events of successive stages by key: of the stages `A,B`, `C`, `D` come the pairs A=>C, B=>C and C=>D.
-- A start waits for its end in a `pending`: bounded, dropped and counted when events were lost, its task ends, or it waited for longer than
-- `opt.max_age`. An end consumes its start; a second start of a key replaces the first. An event of two stages is an end first, then a start.
-- No relation, and left out: thread 0, which is the idle task of every CPU and so not one thread; and a wakeup of the task that its
-- CPU is running anyway. That is told where every switch is among the events and whole CPUs are watched.
local key_types = require "key"

local relation = {}

-- What holds a thread: a start is forgotten when its thread ends, and with -p an event about a watched thread counts, whoever made it.
local OWN = { _tid = true, __pid = true }
local ABOUT = { pid = true, prev_pid = true, next_pid = true }
local WAKEUP = { ["sched:sched_wakeup"] = true, ["sched:sched_waking"] = true }
local SWITCH = "sched:sched_switch"

--- The key of events without one of their own: -k, else the thread with -p, else the CPU.
local function default_key(opt) return opt.key or (per_thread() and "_tid" or "_cpu") end

--- The key of a selector: an expression, a key that is none, and the field of the thread that the event is about, if it is one.
function relation.key(s, opt)
  local key = s.attr.key or default_key(opt)
  return key, (OWN[key] or ABOUT[key]) and 0 or nil, ABOUT[key] and key or nil
end

-- Two roles with filters of their own would each be handed every record that they share, at about 20 ns. So where one role of an event takes
-- all of it, the others tell theirs by an expression, if their filter says the same in C: comparisons of numbers.
local function is_plain(filter, fields)
  for word in filter:gmatch "[%a_][%w_]*" do
    if not fields[word] then return false end
  end
  return filter:match "^[%w_%s&|()=!<>]+$" ~= nil
end

--- What a selector says of how its event is opened: two that differ in it are not one event.
local function opened_as(attr)
  return ("\0%s\0%s\0%s\0%s\0%s"):format(attr.cpus or "", attr.max_stack or "", attr.alias or "", attr.freq or "", attr.period or "")
end
local ANYHOW = opened_as {}

--- What each event of each stage is to do, in an order in which ends come before starts, and the stages.
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
        local role = { typed = typed, selector = s, name = s.name, filter = s.filter, event = event, key = key, thread = OWN[key] or ABOUT[key],
          from = stages[i - 1], to = i < #groups and stage or nil, number = #roles + 1, everyone = i == #groups and on.everyone,
          stage = stage }
        by_name[s.name], roles[#roles + 1] = event, role
        event.stack, event.whole = event.stack or s.stack or on.stacks and i == 1, event.whole or not s.filter and opened_as(s.attr) == ANYHOW
        stage.threads = stage.threads and role.thread
      end
    end
  end
  return roles, stages
end

--- The evsel of a role: one that is there, if it gets the same events, or such that the rest can be told by `met`.
local function evsel_of(role, declared, optional)
  local watched, task, how = per_thread(), ABOUT[role.key] and role.key or nil, opened_as(role.selector.attr)
  local function declare(typed, filter)
    local same = role.name .. "\0" .. (watched and task or "") .. how .. "\0" .. (filter or "")
    local d = declared[same]
    if not d then
      local ev = evsel(typed, { stack = role.event.stack, task = task, everyone = role.everyone or nil, optional = optional })
      if not ev then return end
      d = { ev = ev, whole = not filter and how == ANYHOW, keys = {} }
      declared[same], declared[#declared + 1] = d, d
    end
    return d
  end
  if role.filter and role.event.whole and not watched and how == ANYHOW then
    local all = declare(role.name)
    if is_plain(role.filter, all.ev.fields) then return all, expr_of(("(%s) != 0"):format(role.filter), all.ev, "number") end
  end
  return declare(role.typed, role.filter)
end

--- The handler of one role.
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
  local begins = running and WAKEUP[role.name] and role.key == "pid" and starts_unless_running or starts
  if not waits then return begins end
  return function(e) ends(e) begins(e) end
end

--- Opens the events that belong to no pair, for the history alone, and gives what tells whether an event has a key. An event has one
--- for each of its roles; one that belongs to no pair, its own or, where it has the fields, that of -k.
local function declare_around(groups, opt, declared)
  local keys_of = {}
  local function add(ev, key)
    local ok, f = pcall(expr_of, key, ev)
    local keys = keys_of[ev.attr] or {}                    -- each evsel has a table of its own, also where a glob makes it many events
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

--- Declares the events of `groups`, a list of stages, each a list of selectors or names, and calls `on.pair(start, e, to, key)` for
--- each pair: `start.delay`, `start.time`, `start.value`, and with `on.keep` `start.event`. `start.from` and `to` number the events, as
--- typed. Returns the function that draws such a number; with `on.around`, which opens untraced
--- events, too, the function that checks whether an event has a key; and the type of the keys (`as`
--- of a column). Optional: `on.start(e, from, key, value)`; `on.single(e, to, key)`, an end without
--- a start; `on.key(selector)` and `on.value(selector, ev)`, expressions; `on.stacks`, whether
--- starts take their stacks; `on.none`, a key that is none; `on.everyone`, whether the last stage
--- is that of all tasks, whichever are watched; `on.optional`, whether events may be missing on
--- this machine.
function relation.stages(groups, opt, on)
  local roles, stages = roles_of(groups, opt, on)
  for i = 1, #stages - 1 do
    stages[i].open = pending { "from", "value", key = stages[i].threads and "tid" or "any", keep = on.keep, age = opt.max_age }
  end
  local every_switch = false
  for _, role in ipairs(roles) do every_switch = every_switch or role.name == SWITCH and role.event.whole and not per_thread() end
  local running, declared, names = every_switch and per_cpu(-1), {}, {}
  for i = #roles, 1, -1 do
    local role = roles[i] ---@type table
    names[i] = role.name
    -- Of a stage one event has to be there: the first that was named, if none behind it is.
    local d, met = evsel_of(role, declared, on.optional and (role.stage.there or roles[i - 1] and roles[i - 1].stage == role.stage))
    if d then
      local handler, before = handler_of(role, d.ev, opt, on, running), d.handler
      if met then
        local all = handler
        handler = function(e) if met(e) ~= 0 then all(e) end end
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

--- What prints a pair that took long: its delay, the event that began it, kept, and the one that ended it; with `detail`, an opt.detail, all
--- that happened in between and around, under a heading that says `tell`. `has_key(e, key)` tells of an event whether it has the key of
--- the pair; that is its instance unless it is given.
function relation.printer(detail, has_key)
  if not detail then return function(start, e) emit(start.event, e, { delay_us = start.delay / 1000 }) end end
  local past = history { before = detail.before or 0 }
  local chosen = detail.samecpu or detail.samepid or detail.sametid or detail.samekey
  return function(start, e, key, tell)
    local where
    if chosen then
      local a = start.event
      local cpu_a, pid_a, tid_a, cpu_b, pid_b, tid_b = a._cpu, a._pid, a._tid, e._cpu, e._pid, e._tid
      function where(x)
        if detail.samecpu and x._cpu ~= cpu_a and x._cpu ~= cpu_b then return false end
        if detail.samepid and x._pid ~= pid_a and x._pid ~= pid_b then return false end
        if detail.sametid and x._tid ~= tid_a and x._tid ~= tid_b then return false end
        if not detail.samekey then return true end
        if has_key then return has_key(x, key) end
        return x._instance == key
      end
    end
    past:between(start, e, { before = detail.before, after = detail.after, where = where, tell = tell })
  end
end

--- The columns of a pair, and of its key with --perins; `named` takes what `relation.stages`
--- returns, once the events are declared. The last result is the function that formats a key.
local function columns_of(opt)
  local names, as
  local function draw(number) return names(number) end
  local function named(f, _, of) names, as = f, of end
  local key = opt.key or opt.event[1][1].attr.key or (per_thread() and "tid" or "cpu")
  local function shown(k)
    local is_large = type(k) == "string" or k < 0
    return (as == "pointer" or as == "unsigned" and is_large) and hex(k) or k
  end
  return named, perins { key, as = function() return as end }, { "start", draw, arrow = true }, { "end", draw }, key, shown
end

--- How long each pair took: a table, with `opt.histogram` a distribution by powers of two, too. `opt.than` prints the two events of each
--- longer one, `opt.detail` all that happened around them, `opt.only_than` counts no other. `look` is what else `latency` takes.
function relation.delay(groups, opt, look)
  local than, only, spread = opt.than or opt.only_than, opt.only_than or -math.huge, nil
  local named, key, from, to, called, shown = columns_of(opt)
  local spec, detail = { key, from, to }, than and opt.detail
  for name, value in pairs(look or {}) do spec[name] = value end
  local delays, heat = latency(spec), opt.heatmap and heat_map {} or nil ---@type perilune.Latency, perilune.HeatMap?
  if opt.histogram then spread = hist.log2 { from, to, title = "delay", unit = "ns" } end
  local name, has_key, as, print
  name, has_key, as = relation.stages(groups, opt, { keep = than, around = detail, pair = function(start, e, number, k)
    local delay, first = start.delay, start.from
    if delay <= only then return end
    delays:add(delay, k, first, number)
    if heat then heat:add(e._time, delay) end
    if spread then spread:add(delay, first, number) end
    if than and delay > than then print(start, e, k, first, number) end
  end })
  named(name, has_key, as)
  local print_pair = relation.printer(detail, has_key)
  function print(start, e, k, first, number)
    print_pair(start, e, k, detail and { { "start", name(first) }, { "end", name(number) }, { called, shown(k) }, { "delay_us", start.delay / 1000 } })
  end
end

--- How many events had a partner and how many had none, or have none yet: as starts and as ends, since the run began.
function relation.pair(groups, opt)
  local named, key, event = columns_of(opt)
  local seen = kv { key, { "event", event[2] }, "as", sums = { { "unpaired", first = true }, "paired" }, keep = true }
  named(relation.stages(groups, opt, {
    start = function(_, number, k) seen:add(k, number, "start", 1, 0) end,
    single = function(_, number, k) seen:add(k, number, "end", 1, 0) end,
    pair = function(start, _, number, k)
      seen:add(k, start.from, "start", -1, 1)
      seen:add(k, number, "end", 0, 1)
    end,
  }))
end

--- What was allocated, and what of that was freed; and the ten stacks that allocated most. The memory is told by ptr=, by the key, or by
--- the field `ptr`; its size by size=, or by the field `bytes_alloc`. With `optional` an event that is not here is left out.
function relation.kmemprof(groups, opt, optional)
  local names
  local bytes = kv { { "event", function(number) return names(number) end }, sums = { "calls", { "bytes", first = true } } }
  local stacks = kv { { "stack", stack_text }, sums = { { "bytes", first = true }, "calls" }, top = 10 }
  names = relation.stages(groups, opt, {
    stacks = true, none = 0, optional = optional, everyone = true,              -- the kernel frees behind RCU, in a worker
    key = function(s) return s.attr.ptr or s.attr.key or opt.key or "ptr" end,
    value = function(s) return s.attr.size or "bytes_alloc" end,
    start = function(e, number, _, size)
      bytes:add(number, 1, size)
      stacks:add(e._stack, size, 1)
    end,
    pair = function(start, _, number) bytes:add(number, 1, start.value) end,
  })
end

--- How long system calls took, by call, and which failed how. `groups` are raw_syscalls:sys_enter and raw_syscalls:sys_exit.
function relation.syscalls(groups, opt)
  local than, only = opt.than or opt.only_than, opt.only_than or -math.huge
  local calls, heat = latency { perins "tid", { "syscall", syscall_name } }, opt.heatmap and heat_map {} or nil ---@type perilune.Latency, perilune.HeatMap?
  local errors = kv { { "syscall", syscall_name }, { "error", errno_name }, count = "errors" }
  local detail, print, _, has_key = than and opt.detail, nil, nil, nil
  _, has_key = relation.stages(groups, opt, {
    keep = than, around = detail,
    key = function() return "_tid" end,
    value = function() return "id" end,
    pair = function(call, e, _, tid)
      local delay, id, ret = call.delay, call.value, e.ret
      if id ~= e.id or delay <= only then return end       -- it is the return from a signal's handler, or was not asked for
      calls:add(delay, tid, id)
      if heat then heat:add(e._time, delay) end
      if ret < 0 and ret > -4096 then errors:add(id, ret) end
      if not than or delay <= than then return end
      local name = syscall_name(id)
      if detail then print(call, e, tid, { { "syscall", name }, { "tid", tid }, { "delay_us", delay / 1000 } })
      else emit(call.event, e, { syscall = name, delay_us = delay / 1000 }) end
    end,
  })
  print = relation.printer(detail, has_key)
end

return relation
