--- Names of locks: of the variable or file in whose memory a lock is, or its address.
local lock_names = {}

-- Process of the locks of the kernel. Their names are looked up when they are printed: the first
-- one reads all symbols of the kernel.
local KERNEL = 0

-- Maximum number of names; further locks are `(other locks)`. Beyond as many locks the names are
-- looked up again.
local NAMES, LOCKS, OTHER = 65536, 262144, 1

-- A look-up reads all mappings of the process. Memory beside a lock without a name has none either,
-- up to this many bytes: a process has thousands of locks in its heap.
local REGION = 2 ^ 18

---@class perilune.LockNames
---@field by table<integer, table<number, integer?>?> number of the name, by process and address
---@field nameless table<integer, table<integer, boolean?>?> regions by process
---@field locks integer
---@field numbers table<string, integer>
---@field texts string[]
---@field unnamed table<integer, number?> addresses of locks of the kernel by number
local LockNames = {}
LockNames.__index = LockNames

--- Returns names for the locks of the watched tasks. Declares the events that give a process other
--- memory.
---@return perilune.LockNames
function lock_names.watch()
  local self = { by = {}, nameless = {}, locks = 0, numbers = {}, texts = { "(other locks)" },
    unnamed = {} }
  local function ends(e) self.by[e._pid], self.nameless[e._pid] = nil, nil end
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
  if self.locks == LOCKS then self.by, self.nameless, self.locks = {}, {}, 0 end
  local of, nameless, region = self.by[pid] or {}, self.nameless[pid] or {}, address / REGION
  region = region - region % 1
  local name = pid ~= KERNEL and not nameless[region] and variable_name(pid, address)
  -- The name of a region does not identify a lock in it.
  if not name or name:sub(1, 1) == "[" then
    name, nameless[region] = hex(address), true
  end
  self.by[pid], self.nameless[pid], self.locks = of, nameless, self.locks + 1
  local number = number_of(self, name)
  of[address] = number
  if pid == KERNEL and number ~= OTHER then self.unnamed[number] = address end
  return number
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
  return function(number)
    local address = self.unnamed[number]
    if address then
      local name = variable_name(KERNEL, address)
      if name and name:sub(1, 1) ~= "[" then self.texts[number] = name end
      self.unnamed[number] = nil
    end
    return self.texts[number]
  end
end

return lock_names
