--- Relates events of successive stages by key: stages `A,B`, `C`, `D` give pairs A=>C, B=>C, C=>D.
-- A start waits for its end in a `pending`: bounded, dropped and counted if events are lost, its
-- task ends, or it waits for longer than `opt.max_age`. An end consumes its start; a second start
-- with the same key replaces the first. An event of two stages is an end first, then a start.
-- Ignored: thread 0, which is the idle task of every CPU; and a wakeup of the task that its CPU is
-- running anyway, which is known if every switch is among the events and whole CPUs are watched.
local delays, key_types, recursion = require "delays", require "key", require "recursion"
local roles, still_open = require "roles", require "still_open"

local relation = {}

--- Declares the event of a selector. Calls `handler(e, key)` for each event, except for the key 0
--- of threads: it is the idle task of every CPU.
function relation.watch(s, opt, handler)
  local text, none, task = roles.key(s, opt)
  local ev = evsel(s, { task = some_tasks() and task or nil })
  local key = expr_of(text, ev)
  ev:each(function(e)
    local k = key(e)
    if k ~= none then handler(e, k) end
  end)
end

--- Returns the handler of one role.
local function handler_of(role, ev, opt, on, running)
  local id, none = role.number, role.thread and 0 or nil
  local key, as = expr_of(role.key, ev)
  role.as = as
  local waits, open = role.from and role.from.open, role.to and role.to.open
  local pair, single, start = on.pair, on.single, on.start

  local function ends(e)
    local k = key(e)
    if k == none then return end
    local s = waits:close(k, e)
    if s then pair(s, e, id, k) elseif single then single(e, id, k) end
  end
  local function starts(e)
    local k = key(e)
    if k == none then return end
    open:open(k, e, id)
    if start then start(e, id, k) end
  end
  local function starts_unless_running(e) if running[e.target_cpu] ~= e.pid then starts(e) end end

  if not open then return ends end
  local begins = running and roles.is_wakeup(role) and starts_unless_running or starts
  if not waits then return begins end
  return function(e) ends(e) begins(e) end
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
        add(ev, s.attr.key or roles.default_key(opt))
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
--- `on.pair(start, e, to, key)` for each pair, with `start.delay`, `start.time` and, with
--- `on.keep`, `start.event`. `start.from` and `to` are the numbers of the events, as typed. Returns
--- the function that returns the name for such a number; with `on.around`, which also opens
--- untraced events, the function that returns whether an event has a key; and the type of the keys
--- (`as` of a column).
--- Sets `on.stages`, for the starts that have no end yet.
--- Optional: `on.start(e, from, key)`; `on.single(e, to, key)` for an end without a start.
function relation.stages(groups, opt, on)
  local all, stages = roles.of_groups(groups, opt, {})
  on.stages = stages
  for i = 1, #stages - 1 do
    local kind = stages[i].threads and "tid" or "any"
    stages[i].open = pending { "from", key = kind, keep = on.keep, age = opt.max_age }
  end
  on.waits = stages[1].open
  local running = roles.have_every_switch(all) and per_cpu(-1)
  local name, declared = roles.declare(all, false, function(role, d, where)
    local handler, before = handler_of(role, d.ev, opt, on, running), d.handler
    if where then
      local every, is_met = handler, expr_of(where, d.ev, "number")
      handler = function(e)
        if is_met(e) ~= 0 then every(e) end
      end
    end
    d.keys[#d.keys + 1] = role.key
    d.handler = before and function(e) before(e) handler(e) end or handler
  end)
  for _, d in ipairs(declared) do
    local handler = d.handler
    if running and d.ev.name == roles.SWITCH and d.whole then
      d.handler = function(e) running[e._cpu] = e.next_pid handler(e) end
    end
    d.ev:each(d.handler)
  end
  local has_key, as = on.around and declare_around(groups, opt, declared), nil
  for _, role in ipairs(all) do as = key_types.shared(as, role.as) end
  return name, has_key, as
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
  if #groups ~= 2 or opt.heatmap or opt.perfetto then return nil end
  if (opt.than or opt.only_than) and opt.detail then return nil end
  local all, stages = roles.of_groups(groups, opt, {})
  for _, role in ipairs(all) do
    if roles.is_wakeup(role) and roles.have_every_switch(all) then return nil end
  end
  return all, stages[1].threads
end

--- Declares the pairs of two stages, whose delays go to `times` and `spread`. Returns the results
--- of `relation.stages` but for `has_key`, and the pending of the starts.
local function plain_pairs(all, threads, opt, times, spread)
  local sides, as = { {}, {} }, nil
  local name = roles.declare(all, false, function(role, d, where)
    if role.thread then where = roles.unless_zero(where, role.key) end
    local number = tostring(role.number)
    table.insert(sides[role.from and 2 or 1], { d.ev, key = role.key, where = where,
      rows = role.from and { role.key, [3] = number } or { [2] = number } })
    as = key_types.shared(select(2, expr_of(role.key, d.ev)), as)
  end)
  local than = opt.than or opt.only_than
  local open = times:between(sides[1], sides[2], { threads = threads, age = opt.max_age,
    nested = recursion.NOTE, histogram = spread and { spread, columns = { 2, 3 } },
    longer = opt.only_than, keep = than, than = than, pair = than and delays.printer(opt) })
  return name, as, open
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
  local plain, threads = plain_roles(groups, opt)
  if plain then
    local times, spread, open = latency(spec), spread_of(), nil
    name, as, open = plain_pairs(plain, threads, opt, times, spread)
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

--- Sums the memory that was allocated and freed.
relation.kmemprof = require "allocation_sums"

--- Measures system calls; `groups` are raw_syscalls:sys_enter and raw_syscalls:sys_exit.
relation.syscalls = require "syscall_delays"

return relation
