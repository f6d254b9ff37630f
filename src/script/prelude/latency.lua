--- The constructor of `latency`, whose durations can be declared as delays between two events or as
-- values of events. Trusted code, as aggregate.lua.
local native, env, trusted = ...

local error = error
local declare, each_of, generate, object_of =
  trusted.declare, trusted.each_of, trusted.generate, trusted.object_of

--- latency { column…, unit=, count=, title=, top=n, percentiles=bool, keep=bool }
function env.latency(spec)
  local plan = declare("latency", spec)
  local object = {}
  return object_of("latency", plan.id, object, {
    add = generate(object, "add", plan, plan.leaf, true),
    each = each_of(plan.id, plan.pointer),
    clear = function() native.clear(plan.id) end,
    --- between(start, finish, { key = expression, … }): adds the delays between two events, in the
    -- kernel where that is possible.
    between = function(self, start, finish, of)
      if self ~= object then
        error("between is called with a colon: object:between(start, finish, {…})", 2)
      end
      local open = trusted.between(object, plan, start, finish, of)
      return open
    end,
    --- measure(events, { value = expression, … }): adds a value of each event, in the kernel where
    -- that is possible.
    measure = function(self, events, of)
      if self ~= object then
        error("measure is called with a colon: object:measure(event, {…})", 2)
      end
      trusted.measure(object, plan, events, of)
      return object
    end,
  })
end
