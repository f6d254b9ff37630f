--- Sums the memory that was allocated, and how much of that was freed, and lists the ten stacks
--- that allocate most.
local roles = require "roles"

-- Allocations that wait in the kernel for their end: about as many as a `pending` has room for.
local ROOM = 2 ^ 18

--- Returns the expression that is not 0 for the events of a role: the memory 0 does not count.
local function is_memory(role, d, where)
  local _, as = expr_of(role.key, d.ev)
  return as == "text" and where or roles.unless_zero(where, role.key)
end

--- Takes the stages `groups`: allocations and frees, or more than two. The memory is ptr=, the key,
--- or the field `ptr`; its size is size=, or the field `bytes_alloc`. With `optional`, events that
--- this machine does not have are skipped. Returns a function that returns the results at the end
--- of a run.
return function(groups, opt, optional)
  local name
  local event = { "event", function(number) return name(number) end }
  local bytes = kv { event, sums = { "calls", { "bytes", first = true } } }
  local sums = { { "bytes", first = true }, "calls" }
  local stacks = kv { { "stack", stack_text }, sums = sums, top = 10 }
  local all, stages = roles.of_groups(groups, opt, {
    -- Frees are taken from all tasks: the kernel frees much memory after RCU, in a worker.
    stacks = true, all_tasks = true,
    key = function(s) return s.attr.ptr or s.attr.key or opt.key or "ptr" end,
  })
  for _, stage in ipairs(stages) do stage.starts, stage.ends = {}, {} end
  name = roles.declare(all, optional, function(role, d, where)
    where = is_memory(role, d, where)
    local size, number = role.selector.attr.size or "bytes_alloc", tostring(role.number)
    if role.to then
      stacks:count(d.ev, { key = "_stack", sums = { size, "1" }, where = where })
      table.insert(role.to.starts, { d.ev, key = role.key, where = where, rows = { number },
        sums = { "1", size } })
    end
    if role.from then
      table.insert(role.from.ends, { d.ev, key = role.key, where = where, rows = { number },
        sums = { "1" } })
    end
  end)
  for i = #stages - 1, 1, -1 do
    -- The bytes of an end are those of its start.
    local threads = stages[i].threads --[[@as boolean?]]
    bytes:between(stages[i].starts, stages[i].ends, { threads = threads, age = opt.max_age,
      starts = true, room = ROOM })
  end
  return function() return bytes, stacks end
end
