--- Functions as events: their names in tables, and their returns.
local probes = {}

--- Returns the name of a function without the list of its values.
local function without_values(name)
  return (name:gsub("%([%w_.,= ]*%)$", ""))
end

--- Returns the name of an event for a table: of a function without its file.
---@param id integer as `e._event.id`
---@return string
function probes.name(id)
  local name = event_name(id)
  return name:match '^u%a*probe:"[^"]*":(.+)$' or name:match "^u%a*probe:[^:]*:(.+)$"
    or name:match "^[kft]%a*probe:(.+)$" or name
end

--- Returns the name of the event that is raised when the functions of a selector return. Raises an
--- error if it does not select calls of functions.
---@param s perilune.Selector
---@return string
function probes.returns(s)
  local kind, rest = s.name:match "^([uk])probe:(.+)$"
  if not kind or not rest or rest:find "%+%d" or rest:find ":0x%x+$" then
    local why = "-e %s: not the call of a function: use uprobe:FILE:FUNCTION or kprobe:FUNCTION"
    error(why:format(s.name), 0)
  end
  return kind .. "retprobe:" .. without_values(rest)
end

--- Returns whether all ends are `uretprobe:` events. Probes made in tracefs are not recognized.
---@param groups perilune.Selector[][] a begin, then its ends
---@return boolean
function probes.are_uretprobes(groups)
  for _, group in ipairs(groups) do
    for i = 2, #group do
      if not group[i].name:find "^uretprobe:" then return false end
    end
  end
  return true
end

--- Returns a function that numbers functions: the event of a call and that of a return have the
--- same number, from 1. Also returns the function that returns the name for a number.
---@return fun(id: integer): integer
---@return fun(number: integer): string
function probes.numbers()
  local by_id, by_name, names = {}, {}, {}
  local function learn(id)
    local name = without_values(probes.name(id))
    local number = by_name[name]
    if not number then
      number = #names + 1
      by_name[name], names[number] = number, name
    end
    by_id[id] = number
    return number
  end
  return function(id) return by_id[id] or learn(id) end, function(number) return names[number] end
end

return probes
