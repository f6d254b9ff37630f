--- Stacks over time, for the page of `--heatmap FILE.html`.
local explore = {}

local CELL_NS = 20e6                                       -- as in stacks_over_time.rs

--- Returns whether the option is an HTML page, which needs the stack of each event.
function explore.is_wanted(opt)
  local file = opt.heatmap
  return file and file:sub(-5) == ".html" or false
end

--- Returns a function that adds a stack; nil unless `explore.is_wanted`. `unit` is that of the
--- weights. `joined` is a stack above the first one, `waker` the frame above that.
---@param unit? string
---@return fun(time: number, weight: number, comm: string, stack: integer, joined?: integer,
---  waker?: string)?
function explore.stacks(opt, unit)
  if not explore.is_wanted(opt) then return nil end
  local map, none = stack_map { unit = unit or "samples" }, stack.none
  return function(time, weight, comm, stack, joined, waker)
    map:add((time - time % CELL_NS) / CELL_NS, comm, stack, joined or none, waker or "", weight)
  end
end

return explore
