--- Raises the errors of `draw`, which returns nil and why, at the caller's line.
local error, type = error, type
return function(draw, declare)
  return function(value)
    if declare and type(value) == "table" then return declare(value) end
    local text, why = draw(value)
    if text then return text end
    error(why, 2)
  end
end
