--- Options that exclude each other.
local conflict = {}

--- Raises an error if one of the options `names` is given; `why` is the reason.
---@param opt table<string, any>
---@param names string[]
---@param why string
function conflict.refuse(opt, names, why)
  for _, name in ipairs(names) do
    if opt[name] then error(("--%s: %s; omit one of the options"):format(name, why), 0) end
  end
end

return conflict
