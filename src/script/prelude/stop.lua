--- The function `stop`.
local _, view, ask_to_stop, exports = ...

local cursor = view.cursor

--- Ends the run: no further event is handled, including the rest of the current batch.
function exports.stop(why)
  ask_to_stop(why)
  cursor.stop = 1
end

--- Continues after a `stop`.
function exports.go_on() cursor.stop = 0 end
