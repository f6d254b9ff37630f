--- The function `note`, which prints a message.
local _, view, print, exports = ...

local format, tostring, pcall, error, select, type =
  string.format, tostring, pcall, error, select, type

--- Formats the text here, and refuses a call from a `__tostring` of another call: nested calls
-- would use up mlua's few references. `view.noting` is reset when the guard stops a call.
function exports.note(text, ...)
  if view.noting then error("note was called by the __tostring of its own argument", 2) end
  view.noting = true
  local ok, made = pcall(select("#", ...) == 0 and tostring or format, text, ...)
  view.noting = false
  if ok then return print(made) end
  if type(made) == "string" and not made:find "^[^:]+:%d+: " then
    error((made:gsub("'%?'", "'note'", 1)), 2)
  end
  error(made, 0)
end
