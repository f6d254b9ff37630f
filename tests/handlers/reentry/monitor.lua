--- Calls random functions of the API from every kind of callback, and checks every record that it
-- can read. The fields of each recorded event are determined by its `n`, so a record that is read
-- as a mixture of two is detected.
local m = monitor { summary = "calls random functions from every callback", order = true }
local SEED, CALLS_MAX = SEED_HERE, CALLS_HERE

local state = SEED
local function random(n)
  state = (state * 1103515245 + 12345) % 2147483648
  return math.floor(state / 65536) % n + 1
end
local function one_of(list) return list[random(#list)] end

local calls, wrong, depth = 0, 0, 0
local act                                                  -- does something random

-- The values of a record with this `n`.
local LETTERS = { ["x:big"] = "b", ["x:small"] = "s", ["x:tick"] = "t" }
local LENGTHS = { ["x:big"] = 200, ["x:small"] = 3, ["x:tick"] = 20 }
local function check(r, where)
  local name, n, text = r._event.name, r.n, r.text
  local ok = text == LETTERS[name]:rep(LENGTHS[name] + n % 7) .. n and r._tid == 100 + n % 5
    and #r.list == 2 and r.list[0] == n and r.list[1] == 2 * n
    and math.abs(r._time - r._time % 1) == r._time
  if not ok then
    wrong = wrong + 1
    note("wrong record in %s: %s n=%s text=%s tid=%s", where, name, n, text, r._tid)
  end
end

local p, q, nested, st, by, lat, log2, linear, busy, heat, flames, past, tables
local kept, objects, threads = {}, {}, {}
local e_now, shapeless

-- Returns a table whose metamethods call random functions, for values that the runtime reads.
local function lively(fields)
  return setmetatable({}, {
    __index = function(_, k) act "__index" return fields[k] end,
    __tostring = function() act "__tostring" return "lively" end,
    __len = function() act "__len" return #fields end,
    __call = function() act "__call" end,
    __concat = function() act "__concat" return "x" end,
    __eq = function() act "__eq" return true end,
  })
end

local function key() return random(6) end
local function e_of()
  return one_of { e_now, e_now, e_now, kept[random(4)] or e_now, objects[random(4)] or e_now,
    { _time = random(9e6) } }
end
local function state_of() return p:get(key()) or p:close(key(), e_now) end
local function look(s, where)
  if not s then return end
  check(s.event, where)
  if s.v ~= s.event.n then
    wrong = wrong + 1
    note("%s: state %s of event %s", where, s.v, s.event.n)
  end
end

local actions = {
  function() local e = e_now p:open(key(), e, e.n) end,
  function() local e = e_now p:open(key(), e, e.n) end,
  function() local e = e_now p:open_once(key(), e, e.n) end,
  function() q:open("k" .. key(), e_of(), "text" .. random(9), random(2) == 1) end,
  function() look(p:close(key(), e_now), "close") end,
  function() look(p:get(key()), "get") end,
  function()
    local s = q:get("k" .. key())
    if s then s.w = random(9) s.text = "other" check(s.event, "q") end
  end,
  function() local s = state_of() if s then objects[random(4)] = s.event act "after get" end end,
  function() for _, s in p:each() do look(s, "each") if random(3) == 1 then act "each" end end end,
  function() check(one_of(objects), "a kept object") end,
  function() nested:open(key(), e_now, random(3)) end,
  function()
    local s = nested:close(key(), e_now, random(3))
    if s then check(s.event, "nested") end
  end,
  function() return p:len() + q:len() + nested:len() end,
  function() st:enter(key(), e_of(), "name" .. random(3), random(4) - 1) end,
  function() st:enter(key(), e_now, "name", random(4) - 1) end,
  function() st:move(key(), e_now, random(4) - 1) end,
  function() st:move_from(random(4), key(), e_of(), random(4) - 1) end,
  function() st:switch(key(), random(4) - 1, key(), e_of()) end,
  function() st:leave(key(), e_of()) end,
  function()
    for _, s in st:still(1e12) do
      check(s.event, "still")
      if random(3) == 1 then act "still" end
    end
  end,
  function() for _, s in st:each() do act "each of states" end end,
  function() by:add(one_of { key(), "k" .. key() }, random(100), -random(100)) end,
  function() by:name(key(), "name" .. random(5)) end,
  function() for _, count in by:each() do act "each of kv" end end,
  function() by:clear() end,
  function() lat:add(random(1e6), key(), "x") end,
  function() for _, timing in lat:each() do act "each of latency" end end,
  function() log2:add(random(1e6), key()) linear:add(random(99) - 9) end,
  function() busy:add(key(), now()) end,
  function() heat:add(e_now._time, random(1e6)) end,
  function() flames:add(e_now._stack, random(9), "root") end,
  function() emit(e_now) end,
  function() emit(e_of()) end,
  function() emit(state_of().event, e_now, { delay = random(9), lively = lively {} }) end,
  function() local s = state_of() emit(s.event, objects[random(4)], { a = true }) end,
  function() emit { n = random(9), lively = lively {}, t = {} } end,
  function() emit(lively {}) end,
  function()
    past:between(
      one_of { state_of() or 0, e_of(), random(6e7) },
      one_of { e_of(), random(6e7), lively { time = 5e6 } }, {
        before = random(1e6), after = random(3) == 1 and random(1e6) or nil,
        where = function(e)
          check(e, "where")
          act "where"
          check(e, "where, after")
          return random(2) == 1
        end,
        values = { { "a", random(9) }, lively { "b", 2 }, { "c", lively {} } },
      })
  end,
  function() note("%s", lively {}) end,
  function() alert { "text " .. random(3), key = one_of { "a", "b" } } end,
  function() return comm(key()), now(), ancestry(100 + key()), cpus(), per_thread() end,
  function()
    return report("t", { "a", { "b", function(v) act "column of report" return v end } },
      { { 1, lively {} }, { 2, 3 }, lively { 1, 2 } })
  end,
  function() kept[random(4)] = e_now end,
  function() check(kept[random(4)], "a record of this event") end,
  function()
    return e_now.list[random(4) - 2], #e_now.list, tostring(e_now), e_now._text, e_now._comm
  end,
  function() shapeless = e_now.list end,
  function() return shapeless[0], #shapeless end,
  function()
    threads[random(3)] = coroutine.create(function()
      while true do act "coroutine" coroutine.yield(1) end
    end)
  end,
  function() local co = threads[random(3)] if co then coroutine.resume(co) end end,
  function() coroutine.yield() end,
  function()
    local f = coroutine.wrap(function() coroutine.yield(act "wrap") act "wrap again" end)
    f()
    f()
  end,
  function() (("a"):rep(3)):gsub("a", function() act "gsub" end) end,
  function() table.sort({ 3, 1, 2 }, function(a, b) act "sort" return a < b end) end,
  function()
    xpcall(function() act "xpcall" error "x" end, function() act "message handler" end)
  end,
  function() local t = {} for i = 1, 200 do t[i] = ("x"):rep(i) .. random(100) end end,
  function()
    if #tables < 30 then tables[#tables + 1] = one_of { kv, latency } { "k" } end
    one_of(tables):add(1, 2)
  end,
  function() if #tables < 30 then pending { "v", keep = true }:open(1, e_now, 1) end end,
  function() evsel(lively { "x:tick" }) end,
  function() evsel("x:tick", lively {}, function() end) end,
  function() printer("x:tick", function() end) end,
  function() kv(lively { "a" }) end,
  function() pending(lively {}) end,
  function() every(one_of { "1ms", "3ms" }, function() act "timer" end) end,
  function() history { memory = "1MiB" } end,
  function() expr_of("n + 1", "key")(random(9)) end,
  function() expr_of("n", lively {}) end,
  function() error(lively {}) end,
  function() return load("return ...")(e_now) end,
  function() return hex(lively {}), duration(random(1e9)), bytes(random(1e9)) end,
  function() return stack.format(lively {}), stack.frames(1) end,
}

function act(where)
  if depth > 3 or calls > CALLS_MAX then return end
  depth = depth + 1
  for _ = 1, random(5) do
    calls = calls + 1
    pcall(one_of(actions))
  end
  depth = depth - 1
end

-- Runs a callback that has a record.
local function with(e, where)
  local before = e_now
  e_now = e
  check(e, where)
  act(where)
  check(e, where .. ", after")
  e_now = before
end

local function column(title)
  return { title, function(v) act("column " .. title) return tostring(v) end }
end

function m.init()
  p = pending { "v", key = "any", keep = true }
  q = pending { "text", "w", key = "any", keep = true, lost = "keep", age = "20ms" }
  nested = pending { "call", key = "tid", keep = true, nested = true }
  st = states { column "name", "state", keep = true, than = random(2) == 1 and "1ms" or nil,
    longer = function(stay, e)
      if stay.event then check(stay.event, "longer") end
      with(e, "longer")
    end }
  by = kv { column "k", sums = { "a", "b" }, name = { "name" } }
  lat = latency { column "k", "x", keep = random(2) == 1 }
  log2, linear = hist.log2 { column "k" }, hist.linear { max = 50, step = 5 }
  busy, heat, flames, tables = rate { window = "5ms" }, heat_map {}, flame_graph {}, { kv { "k" } }
  if random(2) == 1 then past = history { memory = "64KiB" } else past = history() end
  for _, name in ipairs { "x:big", "x:small", "x:tick" } do
    printer(name, function(e)
      with(e, "printer")
      return random(4) == 1 and lively {} or "printed " .. e.n
    end)
    evsel(name, function(e) with(e, "handler") end)
  end
  local late = evsel("x:small", function(e) with(e, "second handler") end)
  late:filter("n > 20")
  every("2ms", function() act "timer" end)
  act "init"
end
for _, name in ipairs { "on_fork", "on_exec", "on_exit", "on_comm", "on_lost" } do
  m[name] = function() act(name) end
end
function m.interval()
  act "interval"
  return by, lat, st, log2, report("r", { "a" }, { { lively {} } })
end
function m.deinit()
  act "deinit"
  note("calls=%d wrong=%d", calls, wrong)
  return by, lat, st, log2, linear
end
return m
