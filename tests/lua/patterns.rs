//! The pattern functions and the sort of scripts work like those of LuaJIT.

use perilune::script::vm::{Limits, Vm};

fn compare(source: &str) {
    let vm = Vm::new(Limits { memory: 256 << 20 }).unwrap();
    let differ: Option<String> = vm.trusted("compare", source, vm.env()).unwrap();
    assert_eq!(differ, None);
}

/// Functions for both sides: results as text, errors without their position.
const SHOW: &str = r##"
    local env = ...
    collectgarbage "restart"
    local function results(ok, ...)
      if not ok then return "error " .. tostring((...)):gsub("^.-:%d+: ", "") end
      local all = {}
      for i = 1, select("#", ...) do
        local one = select(i, ...)
        all[i] = type(one) .. " " .. tostring(one)
      end
      return #all .. " " .. table.concat(all, ", ")
    end
    local function gathered(f, ...)
      local all = {}
      for a, b in f(...) do all[#all + 1] = tostring(a) .. "/" .. tostring(b) end
      return table.concat(all, ",")
    end
    local function differ(what, ours, own, ...)
      ours, own = results(pcall(ours, ...)), results(pcall(own, ...))
      if ours ~= own then
        local args = {}
        for i = 1, select("#", ...) do args[i] = ("%q"):format(tostring((select(i, ...)))) end
        return ("%s(%s): %s, not %s"):format(what, table.concat(args, ", "), ours, own)
      end
    end
"##;

#[test]
fn random_patterns_find_what_luajit_finds() {
    compare(&format!(
        "{SHOW}{}",
        r##"
        local items = {
          "a", "b", "c", ".", "%a", "%A", "%d", "%s", "%w", "%x", "%p", "%c", "%l", "%u", "%g", "%z", "%Z", "%G",
          "[ab]", "[^ab]", "[a-c]", "[%a_]", "[]]", "[^]]", "[a-]", "[%]]", "[b-a]", "%f[a]", "%f[^%w]", "%b()", "%bab",
          "(", ")", "(", ")", "()", "%1", "%2", "^", "$", "%", "[", "-", "*", "+", "?", "(a)", "(.)", "(.-)", "\0", "%.", "%%",
          "]", "%f", "%b", "%bx", "\255", "[\128-\255]", "%0", "1",
        }
        local repeats = { "", "", "", "*", "+", "-", "?" }
        local bytes = { "a", "b", "c", "(", ")", " ", "1", "_", "\0", "\255", "ab", "aa", "]", "%", "-", "A", "$", "\n" }
        local replacements = {
          "", "x", "%0", "%1", "<%0%0>", "%2", "%%", "%", "%x", "a%1b", 7,
          function(a, b) return b or a end, function() end, function() return false end,
          function() return 1.5 end, function() return {} end, { a = "A", b = 5, ["1"] = false }, {}, true,
        }
        math.randomseed(20261123)
        local function text(list, most, again)
          local parts = {}
          for i = 1, math.random(0, most) do
            parts[i] = list[math.random(#list)] .. (again and again[math.random(#again)] or "")
          end
          return table.concat(parts)
        end
        for _ = 1, 150000 do
          local subject, pattern = text(bytes, 9), text(items, 5, repeats)
          local from = math.random(3) == 1 and math.random(-12, 12) or nil
          local by, most = replacements[math.random(#replacements)], math.random(4) == 1 and math.random(-1, 3) or nil
          local why = differ("find", env.string.find, string.find, subject, pattern, from)
            or differ("find", env.string.find, string.find, subject, pattern, from, true)
            or differ("match", env.string.match, string.match, subject, pattern, from)
            or differ("gsub", env.string.gsub, string.gsub, subject, pattern, by, most)
            or differ("gmatch", function(...) return gathered(env.string.gmatch, ...) end,
              function(...) return gathered(string.gmatch, ...) end, subject, pattern)
          if why then return why end
        end
    "##
    ));
}

#[test]
fn odd_arguments_are_accepted_or_refused_as_by_luajit() {
    compare(&format!(
        "{SHOW}{}",
        r##"
        local odd = { {}, "abc", 12, 1.5, true, type, "2", "x", -1, 0, 1e10, -1e10, 2.9, -2.9, 0/0, 1/0, -1/0, "%", "(" }
        local n = #odd + 1                -- one more is nil
        for _, name in ipairs { "find", "match", "gmatch", "gsub" } do
          for i = 1, n do for j = 1, n do for k = 1, n do for l = 1, n, 3 do
            local why = differ(name, function(...) return type((env.string[name](...))) end,
              function(...) return type((string[name](...))) end, odd[i], odd[j], odd[k], odd[l])
            if why and not why:find "not function" then return why end
          end end end end
        end
        -- The limits: captures, and nesting.
        for _, pattern in ipairs { ("()"):rep(32), ("()"):rep(33), ("a?"):rep(198), ("a?"):rep(220), ("(a"):rep(40) } do
          local why = differ("match", env.string.match, string.match, ("a"):rep(250), pattern)
          if why then return why end
        end
    "##
    ));
}

#[test]
fn a_sort_leaves_elements_where_luajit_does() {
    compare(&format!(
        "{SHOW}{}",
        r##"
        math.randomseed(7)
        local function keys(t)
          local all = {}
          for i = 1, #t do all[i] = type(t[i]) == "table" and t[i].key .. "@" .. t[i].at or tostring(t[i]) end
          return table.concat(all, " ")
        end
        local function sorted(sort) return function(t, before)
          local copy = {}
          for i = 1, #t do copy[i] = t[i] end
          sort(copy, before)
          return keys(copy)
        end end
        local orders = {
          [0] = false, function(a, b) return a < b end, function(a, b) return a > b end, function(a, b) return a <= b end,
          function() return true end, function() return nil end,
        }
        for n = 0, 400 do
          local t, objects = {}, {}
          for i = 1, n % 60 do
            t[i] = math.random(n)
            objects[i] = { key = math.random(5), at = i }
          end
          local why = differ("sort", sorted(env.table.sort), sorted(table.sort), t, orders[n % 6] or nil)
            or differ("sort", sorted(env.table.sort), sorted(table.sort), objects, function(a, b) return a.key < b.key end)
          if why then return why end
        end
        return differ("sort", env.table.sort, table.sort, 5) or differ("sort", env.table.sort, table.sort, {}, 5)
    "##
    ));
}
