--- Names of locks: of the variable or file in whose memory a lock is, or its address.
local lock_names = {}

-- Maximum number of names; further locks are `(other locks)`. Beyond as many locks the names are
-- looked up again.
local NAMES, LOCKS, OTHER = 65536, 262144, 1

---@class perilune.LockNames
---@field by table<integer, table<number, integer?>?> number of the name, by process and address
---@field locks integer
---@field numbers table<string, integer>
---@field texts string[]
local LockNames = {}
LockNames.__index = LockNames

--- Returns names for the locks of the watched tasks. Declares the events that give a process other
--- memory.
---@return perilune.LockNames
function lock_names.watch()
  local self = { by = {}, locks = 0, numbers = {}, texts = { "(other locks)" } }
  local function ends(e) self.by[e._pid] = nil end
  evsel("sched:sched_process_exec", { optional = true }, ends)
  evsel("sched:sched_process_exit", { optional = true }, function(e)
    if e._tid == e._pid then ends(e) end
  end)
  return setmetatable(self, LockNames)
end

--- Returns the number of a text.
local function number_of(self, text)
  local number = self.numbers[text]
  if number then return number end
  if #self.texts == NAMES then return OTHER end
  number = #self.texts + 1
  self.numbers[text], self.texts[number] = number, text
  return number
end

--- Returns the number of the name of a lock; process 0 is the kernel. Separate from
--- `LockNames:number`, which calls it once per lock.
local function learn(self, pid, address)
  if self.locks == LOCKS then self.by, self.locks = {}, 0 end
  local of = self.by[pid] or {}
  local name = variable_name(pid, address)
  -- The name of a region does not identify a lock in it.
  if not name or name:sub(1, 1) == "[" then name = hex(address) end
  self.by[pid], self.locks, of[address] = of, self.locks + 1, number_of(self, name)
  return of[address]
end

--- Returns the number of the name of a lock; process 0 is the kernel.
---@param pid integer
---@param address number
---@return integer
function LockNames:number(pid, address)
  local of = self.by[pid]
  return of and of[address] or learn(self, pid, address)
end

--- Returns a function that draws a number.
---@return fun(number: integer): string
function LockNames:text()
  return function(number) return self.texts[number] end
end

return lock_names
