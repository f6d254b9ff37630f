--- System calls selected by name: numbers, and filters for `raw_syscalls` events.
local globs = require "globs"

local calls_by_name = {}

--- The highest number that a call of Linux's tables may have; x32 calls are not included.
calls_by_name.MAXIMUM = 1023
-- Maximum length of an in-kernel filter (FTRACE filters are limited to a page).
local LONGEST = 4000

--- Returns the numbers of the system calls that match a list of names and globs, as the option
--- `option` takes it. Raises an error if a name matches no call of this architecture.
---@param option string
---@param list string
---@return integer[]
function calls_by_name.numbers(option, list)
  local found = {}
  for glob in list:gmatch "[^,%s]+" do
    local matches, count = globs.matcher(glob), #found
    for number = 0, calls_by_name.MAXIMUM do
      local name = syscall_name(number)
      if not name:find "^syscall_" and matches(name) then found[#found + 1] = number end
    end
    if #found == count then
      error(("%s: no system call '%s'; perilune list 'syscalls:*' lists them"):format(option, glob),
        0)
    end
  end
  return found
end

--- Returns the filter of `raw_syscalls` events that selects the calls of a list.
---@param list string
---@return string
function calls_by_name.only(list) return calls_by_name.filter(list) or "" end

--- Returns the filter of `raw_syscalls` events that selects the calls of --only and --not, both
--- lists of names and globs; nil if neither is given.
---@param only? string
---@param except? string
---@return string?
function calls_by_name.filter(only, except)
  local terms = {}
  local function join(option, list, operator, joined)
    if not list then return end
    local each = {}
    for i, number in ipairs(calls_by_name.numbers(option, list)) do
      each[i] = ("id %s %d"):format(operator, number)
    end
    terms[#terms + 1] = "(" .. table.concat(each, joined) .. ")"
  end
  join("--only", only, "==", " || ")
  join("--not", except, "!=", " && ")
  local filter = table.concat(terms, " && ")
  if #filter > LONGEST then error("--only, --not: too many system calls; name fewer", 0) end
  return filter ~= "" and filter or nil
end

return calls_by_name
