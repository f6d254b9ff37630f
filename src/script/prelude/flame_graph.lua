--- The constructor of `flame_graph`, which the script can also write to files. Trusted code, as
-- aggregate.lua.
local native, env, trusted = ...

local error, type = error, type

--- flame_graph { title=, unit=, keep=bool }: add(stack, weight [, root_frame]), write(name)
function env.flame_graph(spec)
  local plan = trusted.declare("flame_graph", spec)
  local object = {}
  return trusted.object_of("flame_graph", plan.id, object, {
    add = trusted.generate(object, "add", plan, plan.leaf, true),
    each = trusted.each_of(plan.id, plan.pointer),
    write = function(_, name)
      if type(name) ~= "string" or name == "" then
        error("write(name) takes a name: its files are NAME.folded and NAME.svg", 2)
      end
      local wrong = native.write_flame(plan.id, name)
      if wrong then error(wrong, 2) end
    end,
  })
end
