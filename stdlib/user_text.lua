--- Strings that system calls are passed by address.
local user_text = {}

--- Returns the string of a field: empty if the record contains only its address, or if the string
--- could not be read.
---
---     local path = user_text.of(e.filename)
---@param field number|string
---@return string
function user_text.of(field)
  if type(field) ~= "string" or field:find "^0x" or field == "(fault)" then return "" end
  return field
end

return user_text
