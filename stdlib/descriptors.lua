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
---@field calls? string calls of a file that have the descriptor as first argument
---@field writes? string calls that write to such a file
--- Calls that copy from one file to another: the name, the index of the argument that is read, and
--- that of the one that is written.
---@field copies? [string, integer, integer][]
---@field others? string calls without a file
---@field soon? boolean read the names sooner, at a higher cost

local WITHOUT, READS, WRITES, COPIES = 0, 1, 2, 3

--- Returns a list of what the system calls do by their number, and their filter; and the copies by
--- number.
local function kinds_of(spec)
  local kinds, copies, names = {}, {}, {}
  for id = 0, calls_by_name.MAXIMUM do kinds[id] = WITHOUT end
  local function add(list, kind)
    if not list then return end
    names[#names + 1] = list
    for _, id in ipairs(calls_by_name.numbers("--only", list)) do kinds[id] = kind end
  end
  add(spec.others, WITHOUT)
  add(spec.calls, READS)
  add(spec.writes, WRITES)
  for _, copy in ipairs(spec.copies or {}) do
    add(copy[1], COPIES)
    copies[calls_by_name.numbers("--only", copy[1])[1]] = copy
  end
  return kinds, calls_by_name.only(table.concat(names, ",")), copies
end

--- Measures system calls. Calls `ended(call, e)` at the return of each call of a wanted file:
--- `e.id` and `e.ret` are those of the call, `call.file` is the number of its file, and `call.to`
--- that of a file that it writes to; 0 without one.
---@param spec perilune.descriptors.Calls
---@param ended fun(call: perilune.State, e: perilune.Record)
function Descriptors:watch_calls(spec, ended)
  local calls, kinds, filter, copies = pending { "file", "to", key = "tid" }, kinds_of(spec)
  local enter = evsel("raw_syscalls:sys_enter", { wakeup_events = spec.soon and 1 or nil })
  local argument = {}
  for i = 0, 2 do argument[i] = expr_of(("args[%d]"):format(i), enter, "number") end
  local first = argument[0]
  local function copy(e)
    local _, from, to = unpack(copies[e.id])
    local file, written = self:file(e._pid, argument[from](e)), self:file(e._pid, argument[to](e))
    if file or written then calls:open(e._tid, e, file or 0, written or 0) end
  end
  enter:filter(filter):each(function(e)
    local kind = kinds[e.id]
    if kind == COPIES then copy(e) return end
    local file = kind ~= WITHOUT and self:file(e._pid, first(e))
    if kind == WITHOUT then calls:open(e._tid, e, 0, 0)
    elseif file and kind == READS then calls:open(e._tid, e, file, 0)
    elseif file then calls:open(e._tid, e, 0, file) end
  end)
  evsel("raw_syscalls:sys_exit", function(e)
    local call = calls:close(e._tid, e)
    if call then ended(call, e --[[@as perilune.Record]]) end
  end):filter(filter)
end

return descriptors
