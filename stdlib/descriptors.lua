--- Files of descriptors, followed through the events that close and replace descriptors.
--- A record of a system call contains a descriptor, not its file. The path is the argument of the
--- open, if it was seen, is absolute and the record contains it. Otherwise /proc names the file,
--- but only when the record is read, up to 0.4 s later on a quiet machine. Such a path is certain
--- if no event between the record and the reading closed or replaced the descriptor; an uncertain
--- path gets a mark.
---
--- The threads of a process share a table of descriptors, except those that got their own by
--- unshare(CLONE_FILES), close_range(CLOSE_RANGE_UNSHARE) or a clone without CLONE_FILES. A process
--- may share that of another one. The module follows this from the start of the run on; a path of
--- an older task of this kind may be that of another file.
local calls_by_name, globs = require "calls_by_name", require "globs"
local exit_status, user_text = require "exit_status", require "user_text"
local band = bit.band

local descriptors = {}

-- Maximum number of paths, and of open descriptors; further ones are `(other files)`.
local PATHS, OPEN = 65536, 262144
local OTHER, UNKNOWN, MARK = 1, 2, " ?"
local CLONE_FILES, CLONE_THREAD, CLOSE_RANGE_UNSHARE = 0x400, 0x10000, 0x2

---@class perilune.Descriptors
--- By table, then by descriptor. The number of a table is its process, or the negative number of
--- the thread that got a table of its own.
---@field tables table<integer, table<integer, perilune.DescriptorFile?>?>
---@field own table<integer, integer?> table of each thread that does not use that of its process
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

--- Forgets all descriptors of a table.
local function end_table(self, number, time)
  local files = self.tables[number]
  if not files then return end
  for fd in pairs(files) do end_file(self, files, fd, time) end
  self.tables[number] = nil
end

--- Returns the number of the table that the thread of an event uses.
local function table_of(self, e) return self.own[e._tid] or e._pid end

--- Stores the file of a descriptor; `read` is the time at which its path was read, if it was not
--- recorded.
local function add(self, of, fd, number, read)
  local files = self.tables[of]
  if not files then
    files = {}
    self.tables[of] = files
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
    if open and e.ret >= 0 then self:opened(e, e.ret, open.path) end
  end
  evsel("syscalls:sys_enter_" .. call, { optional = true }, enters)
  evsel("syscalls:sys_exit_" .. call, { optional = true }, returns)
end

--- Declares the events of a system call, if this kernel has it. Calls `done(call, e)` when it has
--- returned without an error; `call.first` and `call.second` are these fields of its entry event,
--- and `call.time` is the time of that event.
---@param call string
---@param done fun(call: perilune.State, e: perilune.Record)
---@param first string
---@param second? string
local function watch_done(call, done, first, second)
  local calls = pending { "first", "second", key = "tid" }
  ---@param e any
  local function enters(e) calls:open(e._tid, e, e[first], second and e[second] or 0) end
  ---@param e any
  local function returns(e)
    local state = calls:close(e._tid, e)
    if state and e.ret >= 0 then done(state, e) end
  end
  evsel("syscalls:sys_enter_" .. call, { optional = true }, enters)
  evsel("syscalls:sys_exit_" .. call, { optional = true }, returns)
end

--- Declares the events of calls that replace a descriptor by a copy of another one.
local function watch_copies(self)
  local function copied(call, e)
    local of, from, to = table_of(self, e), call.first, call.second
    local files = self.tables[of]
    if not files or from == to then return end
    end_file(self, files, to, call.time)
    local file = files[from]
    if file then add(self, of, to, file.number, file.read) end
  end
  watch_done("dup2", copied, "oldfd", "newfd")
  watch_done("dup3", copied, "oldfd", "newfd")
end

--- Gives a thread a table of its own: a copy of that of another thread, which an event is about.
local function copy_table(self, e, tid)
  local from, number = self.tables[table_of(self, e)], -tid
  self.own[tid] = number
  for fd, file in pairs(from or {}) do
    if self.open < OPEN then add(self, number, fd, file.number, file.read) end
  end
end

--- Forgets that a thread has another table than its process, and the table if it is not that of a
--- process and no other thread has it.
local function release(self, tid, time)
  local number = self.own[tid]
  self.own[tid] = nil
  if not number or number > 0 then return end
  for _, other in pairs(self.own) do
    if other == number then return end
  end
  end_table(self, number, time)
end

--- Declares the events that begin tables.
local function watch_new_tables(self)
  local function unshare(e)
    if self.own[e._tid] ~= -e._tid then copy_table(self, e, e._tid) end
  end
  watch_done("unshare", function(call, e)
    if band(call.first, CLONE_FILES) ~= 0 then unshare(e) end
  end, "unshare_flags")
  watch_done("close_range", function(call, e)
    if band(call.first, CLOSE_RANGE_UNSHARE) ~= 0 then unshare(e) end
    end_table(self, table_of(self, e), call.time)
  end, "flags")
  evsel("task:task_newtask", { optional = true }, function(e)
    local is_thread, used = band(e.clone_flags, CLONE_THREAD) ~= 0, table_of(self, e)
    self.own[e.pid] = nil                                  -- the end of an earlier task was lost
    if band(e.clone_flags, CLONE_FILES) == 0 then
      if is_thread then copy_table(self, e, e.pid) end
    elseif not is_thread or used ~= e._pid then
      self.own[e.pid] = used
    end
  end)
end

--- Declares the events that end tables.
local function watch_ends(self)
  evsel("sched:sched_process_exec", function(e)
    release(self, e.old_pid, e._time)
    release(self, e._pid, e._time)
    end_table(self, e._pid, e._time)
  end)
  exit_status.watch_threads(function(e, is_last)
    release(self, e._tid, e._time)
    if is_last then end_table(self, e._pid, e._time) end
  end)
end

--- Follows the descriptors of the watched tasks. Declares the events that close and replace them.
--- `path` is a list of globs of the wanted paths; with `inodes`, each socket and pipe has its own
--- name.
---@param opt { path?: string, inodes?: boolean }
---@return perilune.Descriptors
function descriptors.watch(opt)
  local self = setmetatable({
    tables = {}, own = {}, numbers = {}, paths = { [0] = "-", "(other files)", "(unknown)" },
    unsure = {}, recent = {}, since = -math.huge, until_ = -math.huge, open = 0,
    wanted = opt.path and globs.matcher(opt.path),
    inodes = opt.inodes or false,
  }, Descriptors)
  evsel("syscalls:sys_enter_close", function(e)
    local files = self.tables[table_of(self, e)]
    if files then end_file(self, files, e.fd, e._time) end
  end)
  watch_copies(self)
  watch_new_tables(self)
  local opening = pending { "path", key = "tid" }
  watch_opens(self, opening, "openat", "filename")
  watch_opens(self, opening, "openat2", "filename")
  watch_opens(self, opening, "open", "filename")
  watch_opens(self, opening, "creat", "pathname")
  watch_ends(self)
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

--- Sets the path of a descriptor that the thread of an event opened by this path.
---@param e perilune.Record
---@param fd integer
---@param path string
function Descriptors:opened(e, fd, path)
  if self.open < OPEN then add(self, table_of(self, e), fd, number_of(self, path)) end
end

--- Returns the number of the path of a descriptor that the thread of an event uses, for `text`;
--- false if the path is not wanted.
---@param e perilune.Record
---@param fd any an argument of the call
---@return integer|false
function Descriptors:file(e, fd)
  local of = table_of(self, e)
  local files = self.tables[of]
  local file = files and files[fd]
  if file then return file.number end
  if self.open == OPEN then return OTHER end
  -- The files of a process in /proc are those of its first thread.
  local has_own = self.own[e._tid] or self.own[e._pid]
  local path, time = fd_path(has_own and e._tid or e._pid, fd)
  local number = path and number_of(self, path) or not path and not self.wanted and UNKNOWN
  add(self, of, fd, number, time)
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
  for number in pairs(self.tables) do end_table(self, number, -math.huge) end
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
    local file, written = self:file(e, argument[from](e)), self:file(e, argument[to](e))
    if file or written then calls:open(e._tid, e, file or 0, written or 0) end
  end
  enter:filter(filter):each(function(e)
    local kind = kinds[e.id]
    if kind == COPIES then copy(e) return end
    local file = kind ~= WITHOUT and self:file(e, first(e))
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
