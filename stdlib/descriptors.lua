--- Files of descriptors, followed through the events that close and replace descriptors.
--- A record of a system call contains a descriptor, not its file. The path is the argument of the
--- open, if it was seen, is absolute and the record contains it. Otherwise /proc names the file,
--- but only when the record is read, a few milliseconds later. Such a path is certain if no event
--- between the record and the reading closed or replaced the descriptor; an uncertain path gets a
--- mark.
local calls_by_name, globs = require "calls_by_name", require "globs"
local user_text = require "user_text"

local descriptors = {}

-- Maximum number of paths, and of open descriptors; further ones are `(other files)`.
local PATHS, OPEN = 65536, 262144
local OTHER, UNKNOWN, MARK = 1, 2, " ?"

---@class perilune.Descriptors
---@field processes table<integer, table<integer, perilune.DescriptorFile?>?> by process and fd
---@field numbers table<string, integer> number of each path
---@field paths table<integer, string> path of each number
---@field unsure table<integer, number> when a path was read last that may be that of another file
---@field recent table<integer, number> time of the last reading of each path
---@field since number beginning of the interval
---@field until_ number end of the interval
---@field open integer number of descriptors that are remembered
---@field wanted? fun(path: string): boolean
---@field inodes boolean
local Descriptors = {}
Descriptors.__index = Descriptors

--- A descriptor: the number of its path, false if it is not wanted, and when the path was read.
---@class perilune.DescriptorFile
---@field number integer|false
---@field read number

--- Forgets a descriptor, which an event at `time` closed or replaced.
local function end_file(self, files, fd, time)
  local file = files[fd]
  if not file then return end
  files[fd], self.open = nil, self.open - 1
  if file.number and time <= file.read then self.unsure[file.number] = file.read end
end

--- Forgets all descriptors of a process.
local function end_process(self, pid, time)
  local files = self.processes[pid]
  if not files then return end
  for fd in pairs(files) do end_file(self, files, fd, time) end
  self.processes[pid] = nil
end

--- Stores the file of a descriptor; `read` is the time at which its path was read, if it was not
--- recorded.
local function add(self, pid, fd, number, read)
  local files = self.processes[pid]
  if not files then
    files = {}
    self.processes[pid] = files
  end
  if not files[fd] then self.open = self.open + 1 end
  files[fd] = { number = number, read = read or -math.huge }
end

--- Declares the events of a call that opens files; `path` is its field.
local function watch_opens(self, opening, call, path)
  ---@param e perilune.Record
  local function enters(e)
    local text = user_text.of(e[path])
    if text:sub(1, 1) == "/" then opening:open(e._tid, e, text) end
  end
  ---@param e perilune.Record
  local function returns(e)
    local open = opening:close(e._tid, e)
    if open and e.ret >= 0 then self:opened(e._pid, e.ret, open.path) end
  end
  evsel("syscalls:sys_enter_" .. call, { optional = true }, enters)
  evsel("syscalls:sys_exit_" .. call, { optional = true }, returns)
end

--- Follows the descriptors of the watched tasks. Declares the events that close and replace them.
--- `path` is a list of globs of the wanted paths; with `inodes`, each socket and pipe has its own
--- name.
---@param opt { path?: string, inodes?: boolean }
---@return perilune.Descriptors
function descriptors.watch(opt)
  local self = setmetatable({
    processes = {}, numbers = {}, paths = { [0] = "-", "(other files)", "(unknown)" }, unsure = {},
    recent = {}, since = -math.huge, until_ = -math.huge, open = 0,
    wanted = opt.path and globs.matcher(opt.path),
    inodes = opt.inodes or false,
  }, Descriptors)
  evsel("syscalls:sys_enter_close", function(e)
    local files = self.processes[e._pid]
    if files then end_file(self, files, e.fd, e._time) end
  end)
  local function replaces(e)
    local files, from, to = self.processes[e._pid], e.oldfd, e.newfd
    if not files or from == to then return end
    end_file(self, files, to, e._time)
    local copied = files[from]
    if copied then add(self, e._pid, to, copied.number, copied.read) end
  end
  evsel("syscalls:sys_enter_dup2", { optional = true }, replaces)
  evsel("syscalls:sys_enter_dup3", { optional = true }, replaces)
  local opening = pending { "path", key = "tid" }
  watch_opens(self, opening, "openat", "filename")
  watch_opens(self, opening, "openat2", "filename")
  watch_opens(self, opening, "open", "filename")
  watch_opens(self, opening, "creat", "pathname")
  local function ends(e) end_process(self, e._pid, e._time) end
  evsel("syscalls:sys_enter_close_range", { optional = true }, ends)
  evsel("sched:sched_process_exec", ends)
  evsel("sched:sched_process_exit", function(e)
    if e._tid == e._pid then ends(e) end
  end)
  return self
end

--- Returns the number of a path; false if it is not wanted.
local function number_of(self, path)
  if self.wanted and not self.wanted(path) then return false end
  if not self.inodes then path = path:match "^(%l+):%[%d+%]$" or path end
  local number = self.numbers[path]
  if not number then
    if #self.paths == PATHS then return OTHER end
    number = #self.paths + 1
    self.numbers[path], self.paths[number] = number, path
  end
  return number
end

--- Sets the path of a descriptor that was opened by this path.
---@param pid integer
---@param fd integer
---@param path string
function Descriptors:opened(pid, fd, path)
  if self.open < OPEN then add(self, pid, fd, number_of(self, path)) end
end

--- Returns the number of the path of a descriptor at an event, for `text`; false if the path is not
--- wanted.
---@param pid integer
---@param fd any an argument of the call
---@return integer|false
function Descriptors:file(pid, fd)
  local files = self.processes[pid]
  local file = files and files[fd]
  if file then return file.number end
  if self.open == OPEN then return OTHER end
  local path, time = fd_path(pid, fd)
  local number = path and number_of(self, path) or not path and not self.wanted and UNKNOWN
  add(self, pid, fd, number, time)
  if time and number then self.recent[number] = time end
  return number
end

--- Returns a function that draws the number of a path: ` ?` after a path means that it may be that
--- of another file, and `(unknown)` that it could not be read.
---@return fun(number: integer): string
function Descriptors:text()
  return function(number)
    local path = self.paths[number]
    if number <= UNKNOWN then return path end
    local unsure = self.unsure[number]
    local marked = unsure and unsure >= self.since
    local certain = not marked and (self.recent[number] or 0) <= now()
    return certain and path or path .. MARK
  end
end

--- Ends an interval, to be called in `m.interval`: the table that is drawn next has the marks of
--- the files that were uncertain in it.
function Descriptors:interval()
  self.since, self.until_ = self.until_, now()
end

--- Forgets everything, to be called when events were lost: descriptors may have been closed.
function Descriptors:lost()
  for pid in pairs(self.processes) do end_process(self, pid, -math.huge) end
end

---@class perilune.descriptors.Calls
---@field calls string
---@field others? string
---@field copies? [string, integer, integer][]
---@field soon? boolean

--- Measures system calls whose first argument is a descriptor (`calls`), and further ones that have
--- none (`others`), both as lists of names, and calls that copy from one descriptor to another:
--- `copies` is a list of name, index of the argument that is read and index of the one that is
--- written. Calls `ended(call, e)` at the return of each call of a wanted file: `e.id` and `e.ret`
--- are those of the call, `call.file` is the number of its file, `call.to` that of the file that a
--- copy writes, 0 without one. With `soon` the names are read sooner, at a higher cost.
---@param spec perilune.descriptors.Calls
---@param ended fun(call: perilune.State, e: perilune.Record)
function Descriptors:watch_calls(spec, ended)
  local calls, at, to_at = pending { "file", "to", key = "tid" }, {}, {}
  local names = spec.calls .. "," .. (spec.others or "")
  for _, id in ipairs(calls_by_name.numbers("--only", spec.calls)) do at[id] = 0 end
  for _, copy in ipairs(spec.copies or {}) do
    local id = calls_by_name.numbers("--only", copy[1])[1]
    at[id], to_at[id], names = copy[2], copy[3], names .. "," .. copy[1]
  end
  local filter = calls_by_name.only(names)
  local enter = evsel("raw_syscalls:sys_enter", { wakeup_events = spec.soon and 1 or nil })
  local argument = {}
  for i = 0, 2 do argument[i] = expr_of(("args[%d]"):format(i), enter, "number") end
  local first = argument[0]
  enter:filter(filter):each(function(e)
    local from, to, file, written = at[e.id], to_at[e.id], 0, 0 ---@type any, any, any, any
    if to then
      file, written = self:file(e._pid, argument[from](e)), self:file(e._pid, argument[to](e))
    elseif from then file = self:file(e._pid, first(e)) end
    if file or to and written then calls:open(e._tid, e, file or 0, written or 0) end
  end)
  evsel("raw_syscalls:sys_exit", function(e)
    local call = calls:close(e._tid, e)
    if call then ended(call, e --[[@as perilune.Record]]) end
  end):filter(filter)
end

return descriptors
