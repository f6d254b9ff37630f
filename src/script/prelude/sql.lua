--- The constructor of `sql`, whose objects add whole events. Trusted code, as aggregate.lua.
local native, env, trusted = ...

local cast = require("ffi").cast
local error = error

--- sql { "SELECT …", title=, rows=n }: add(e)
function env.sql(spec)
  local plan = trusted.declare("sql", spec)
  local object, pointer, hooks = {}, plan.pointer, trusted.hooks
  local leaf = cast(trusted.leaf_type(2, true), plan.leaf)
  return trusted.object_of("sql", plan.id, object, {
    --- add(e): adds the event of the handler that runs to the table of the event.
    add = function(self, e)
      if self ~= object then error("add(e) is called with a colon: object:add(e)", 2) end
      leaf(pointer, hooks.slot_of(e), 0, 0, 0)
    end,
    clear = function() native.clear(plan.id) end,
  })
end
