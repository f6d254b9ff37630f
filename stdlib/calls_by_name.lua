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

--- Returns the numbers that the exits of calls have. rt_sigreturn restores the registers of the
--- interrupted code, and its exit has the number -1.
local function exits_of(numbers)
  local exits, sigreturn = { unpack(numbers) }, calls_by_name.numbers("--only", "rt_sigreturn")[1]
  for _, number in ipairs(numbers) do
    if number == sigreturn then exits[#exits + 1] = -1 end
  end
  return exits
end

--- Returns the filters of raw_syscalls:sys_enter and raw_syscalls:sys_exit that select the calls of
--- --only and --not, both lists of names and globs; nil if neither is given.
---@param only? string
---@param except? string
---@return string? enter
---@return string? exit
function calls_by_name.filter(only, except)
  local function filter(only_numbers, except_numbers)
    local terms = {}
    local function join(numbers, operator, joined)
      if not numbers then return end
      local each = {}
      for i, number in ipairs(numbers) do each[i] = ("id %s %d"):format(operator, number) end
      terms[#terms + 1] = "(" .. table.concat(each, joined) .. ")"
    end
    join(only_numbers, "==", " || ")
    join(except_numbers, "!=", " && ")
    local text = table.concat(terms, " && ")
    if #text > LONGEST then error("--only, --not: too many system calls; name fewer", 0) end
    return text ~= "" and text or nil
  end
  local selected = only and calls_by_name.numbers("--only", only)
  local omitted = except and calls_by_name.numbers("--not", except)
  return filter(selected, omitted), filter(selected and exits_of(selected), omitted)
end

return calls_by_name
