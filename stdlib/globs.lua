--- Lists of globs, as options take them: `nginx*,!*debug`.
local globs = {}

--- Returns the Lua pattern of a glob: `*` is any text, `?` one character.
local function pattern_of(glob)
  return "^" .. glob:gsub("[%^%$%(%)%%%.%[%]%+%-]", "%%%0"):gsub("%*", ".*"):gsub("%?", ".") .. "$"
end

--- Returns a function that returns whether a text matches one of a list of globs, and none of those
--- after a `!`. A list without a positive glob matches all other texts.
---
---     local wanted = globs.matcher "/etc/*,!*.swp"
---     if wanted(path) then … end
---@param list string
---@return fun(text: string): boolean
function globs.matcher(list)
  local wanted, unwanted = {}, {}
  for glob in list:gmatch "[^,]+" do
    local name = glob:match "^!(.+)"
    table.insert(name and unwanted or wanted, pattern_of(name or glob))
  end
  return function(text)
    for _, pattern in ipairs(unwanted) do
      if text:find(pattern) then return false end
    end
    for _, pattern in ipairs(wanted) do
      if text:find(pattern) then return true end
    end
    return #wanted == 0
  end
end

return globs
