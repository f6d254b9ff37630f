--- Delays that are longer than a threshold, usually `--than`.
local longer = {}

--- Returns a function that prints a delay longer than `than`, with the delay as `delay_us`: the
--- event that began it, which a `pending` kept, and the event `e` that ended it. Without `than` it
--- prints nothing. Times are nanoseconds.
---
---     local print = longer.printer(opt.than)
---     …
---     print(start, e, start.delay)
---@param than? number|false
---@return fun(start: perilune.State, e: perilune.Sample, delay: number)
function longer.printer(than)
  if not than then return function() end end
  return function(start, e, delay)
    if delay > than then emit(start.event, e, { delay_us = delay / 1000 }) end
  end
end

return longer
