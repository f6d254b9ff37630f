--- Generates Lua code from templates, for the preludes.
--
-- A template is Lua, except that `$name` stands for the part of that name. A part is code or a
-- number, and is inserted as it is: a `$name` inside of it is not replaced. Code is generated only
-- where a function must be compiled once per use (per role, or per number of columns), so that its
-- traces see constants. Everything else is passed to the generated chunk as an argument.
local error, gsub, tostring = error, string.gsub, tostring

--- fill(template, parts): returns the code.
return function(template, parts)
  return (gsub(template, "%$(%l[%l_]*)", function(name)
    local part = parts[name]
    if part == nil then error("a template has no part '" .. name .. "'") end
    return tostring(part)
  end))
end
