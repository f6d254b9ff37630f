//! Handlers that never end.

/// Endless handlers by name: each avoids a simple hook in another way.
pub(crate) const SPINS: &[(&str, &str)] = &[
    ("a loop", "local x = 0 while true do x = x + 1 end"),
    (
        "a loop of pcalls",
        "local x = 0 while true do pcall(function() while true do x = x + 1 end end) end",
    ),
    ("an empty loop", "while true do end"),
    ("a coroutine", "coroutine.wrap(function() while true do end end)()"),
    (
        "coroutines in coroutines",
        "local function deep(n) if n == 0 then while true do end end \
         coroutine.wrap(deep)(n - 1) end deep(20)",
    ),
    ("repeat until false", "repeat until false"),
    ("a loop of stores", "local t = {} for i = 1, 1e12 do t[i % 10] = i end"),
    ("a tail call to itself", "local function f() return f() end f()"),
    ("a long for", "for i = 1, 1e15 do end"),
    (
        "an __index that gives",
        "local t = setmetatable({}, { __index = function(t, k) return k end }) while t[1] do end",
    ),
    (
        "an xpcall whose handler spins",
        "while true do xpcall(error, function() while true do end end) end",
    ),
    (
        "nested pcalls",
        "local function f(n) if n == 0 then while true do end end \
         while true do pcall(f, n - 1) end end f(30)",
    ),
    ("a sort that compares for ever", "table.sort({ 3, 1, 2 }, function() while true do end end)"),
    ("a gsub whose function spins", "(('x'):rep(9)):gsub('x', function() while true do end end)"),
    (
        "a __tostring while the error is shown",
        "error(setmetatable({}, { __tostring = function() while true do end end }))",
    ),
    (
        "a pairs over a table that grows back",
        "local t = { 1 } while true do for k, v in pairs(t) do t[k] = v end end",
    ),
    ("string building", "while true do local s = '' for i = 1, 100 do s = s .. i end end"),
    (
        "an xpcall both of whose functions spin",
        "xpcall(function() while true do end end, function() while true do end end)",
    ),
    (
        "xpcalls in handlers of xpcalls",
        "local function f() while true do end end for i = 1, 9 do local g = f \
         f = function() xpcall(g, g) end end f()",
    ),
    ("a pattern that backtracks", "local _ = (('a'):rep(60)):find(('.-'):rep(60) .. 'b')"),
    ("the same in match", "local _ = (('a'):rep(1e6)):match(('a*'):rep(20) .. 'b')"),
    ("the same in gmatch", "for w in (('a'):rep(1e6)):gmatch(('a*'):rep(20) .. 'b') do end"),
    ("the same in gsub", "local _ = (('a'):rep(1e6)):gsub(('a-'):rep(20) .. 'b', '')"),
    ("the same of a number", "local _ = string.find(11111111111111, ('1*'):rep(100) .. '2')"),
    (
        "a pattern under pcall",
        "while true do pcall(string.find, ('a'):rep(60), ('a-'):rep(60) .. 'b') end",
    ),
    ("brackets without end", "local _ = ((' '):rep(1e6)):find('[' .. ('%a'):rep(1e6) .. ']')"),
    ("balances without end", "local _ = (('('):rep(1e6)):find('%b()')"),
    (
        "a long text that nearly occurs",
        "local _ = (('a'):rep(2e7)):find(('a'):rep(1e7) .. 'b', 1, true)",
    ),
    ("a gsub that calls Rust", "local _ = (('a'):rep(1e7)):gsub('', print)"),
    (
        "a sort of what is long and equal",
        "local s = ('a'):rep(1e7) local t = {} for i = 1, 1e5 do t[i] = s end table.sort(t)",
    ),
    (
        "a sort in the worst order",
        "local n = 2e5 local t, keys = {}, {} for i = 1, n do t[i] = i keys[i] = 0 end \
         local solid, last = 0, nil table.sort(t, function(a, b) \
         if keys[a] == 0 and keys[b] == 0 then solid = solid + 1 \
         if a == last then keys[a] = solid else keys[b] = solid end end \
         if keys[a] == 0 then last = a return false \
         elseif keys[b] == 0 then last = b return true end \
         return keys[a] < keys[b] end) while true do end",
    ),
    (
        "a __tostring that is tostring",
        "local _ = tostring(setmetatable({}, { __tostring = tostring }))",
    ),
    ("a __pairs that is pairs", "for _ in pairs(setmetatable({}, { __pairs = pairs })) do end"),
    (
        "an __ipairs that is ipairs",
        "for _ in ipairs(setmetatable({}, { __ipairs = ipairs })) do end",
    ),
    ("a text that never ends", "load(function() while true do end end)"),
    ("a call of a Rust word", "while true do print(1) end"),
];
