--- The constructor of `kv`, whose rows can be added to in parts, named and cleared. Trusted code,
-- as aggregate.lua.
local native, env, trusted, leaves = ...

local error, tostring, type = error, tostring, type
local format = string.format
local declare, each_of, generate, object_of =
  trusted.declare, trusted.each_of, trusted.generate, trusted.object_of

local function too_wide(what, other)
  return function() error(what .. " has too many columns for one call" .. other, 2) end
end

-- Types of expressions whose values have no sign.
local UNSIGNED = { unsigned = true, pointer = true }

--- kv { column…, sums={…}, count=, top=n, style="top", hide_key=bool, name={title, draw}, title=,
-- keep=bool }
function env.kv(spec)
  local plan = declare("kv", spec)
  local object, parameters, pointer = {}, plan.parameters, plan.pointer
  plan.exact = plan.sums > 0

  --- Returns a plan with the parameters of the key and of sums `first` to `last`, whose values are
  -- of the types `as`, if given.
  local function part(first, last, as)
    local of = { pointer = pointer, parameters = {}, exact = last >= first }
    for i = 1, plan.keys do of.parameters[i] = parameters[i] end
    for i = first, last do
      local parameter, type_of = parameters[plan.keys + i], as and as[i - first + 1]
      of.parameters[#of.parameters + 1] = not type_of and parameter
        or { name = parameter.name, is = UNSIGNED[type_of] and "unsigned" or "value" }
    end
    return of
  end

  --- Returns a function add(key…, v…) of the n sums from `first` on.
  local function adding(first, n, as)
    if type(first) ~= "number" or type(n) ~= "number" or first < 1 or n < 0
      or first + n - 1 > plan.sums or first % 1 + n % 1 ~= 0 then
      error(format("adding(first, n): this kv has %d sums, there are no %s from the %sth on",
        plan.sums, tostring(n), tostring(first)), 3)
    end
    local leaf = leaves[plan.present + n + 1]
    if not leaf then error("adding(first, n): too many columns for one call", 3) end
    return generate(
      object, "add", part(first, first + n - 1, as), leaf, false, 2 ^ 8 * (first - 1), "~= 0")
  end

  local functions = {
    add = plan.leaf and generate(object, "add", plan, plan.leaf, true)
      or too_wide("add", "; use adding(first, n)"),
    each = each_of(plan.id, pointer),
    clear = function() native.clear(plan.id) end,
  }
  --- adding(first, n): a function add(key…, v…) of the n sums from `first` on. It returns true
  -- while the row lacks a name.
  function functions.adding(_, first, n)
    local add = adding(first, n)
    return add
  end
  --- count(ev, { key = expression, where = expression, sums = { expression… }, first = index,
  -- name = expression }):
  -- counts the events of an evsel, in the kernel where that is possible.
  function functions.count(self, ev, of)
    if self ~= object then error("count is called with a colon: object:count(ev, {…})", 2) end
    trusted.count(object, plan, ev, of, adding)
    return object
  end
  --- between(start, finish, { key = expression, … }): adds a row for each pair of two events, in
  -- the kernel where that is possible.
  function functions.between(self, start, finish, of)
    if self ~= object then
      error("between is called with a colon: object:between(start, finish, {…})", 2)
    end
    local open = trusted.rows_between(object, plan, start, finish, of, adding)
    return open
  end
  --- name(key, text): sets the text of the name column.
  local of = part(1, 0)
  of.parameters[#of.parameters + 1] = { name = "text", is = "text" }
  functions.name = generate(object, "name", of, leaves[plan.present + 2], true, 2 ^ 31)
  return object_of("kv", plan.id, object, functions)
end
