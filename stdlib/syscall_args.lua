--- Arguments of system calls as text, from `raw_syscalls:sys_enter`.
local bit_names, calls_by_name = require "bit_names", require "calls_by_name"
local open_flags, values = require "open_flags", require "syscall_values"
local syscall_parameters = require "syscall_parameters"

local syscall_args = {}

-- Calls whose first argument is a descriptor that they leave open.
local WITH_FILE = "read,write,pread64,pwrite64,readv,writev,preadv*,pwritev*,fstat,lseek,ioctl," ..
  "fsync,fdatasync,syncfs,sync_file_range,ftruncate,fallocate,flock,fcntl,fchmod,getdents*," ..
  "sendto,recvfrom,sendmsg,recvmsg,sendmmsg,recvmmsg,accept*,connect,shutdown,getsockopt," ..
  "setsockopt,epoll_ctl,epoll_wait*,epoll_pwait*,splice"

local open, status = open_flags.text, open_flags.status
local signal = function(number) return signal_name(number) end
local octal = function(mode) return ("0%o"):format(mode % 0x10000) end

-- Decoded arguments by call: the index of the argument, its name in `man 2` (but `socket_type`,
-- since each JSON line has a `type`), and the function that returns its text. openat2 and clone3
-- have theirs in memory.
local ARGUMENTS = {
  accept4 = { { 3, "flags", status } },
  access = { { 1, "mode", values.access } },
  chmod = { { 1, "mode", octal } },
  clock_gettime = { { 0, "clockid", values.clock } },
  clock_nanosleep = { { 0, "clockid", values.clock } },
  clone = { { 0, "flags", values.clone } },
  creat = { { 1, "mode", octal } },
  dup3 = { { 2, "flags", status } },
  epoll_create1 = { { 0, "flags", status } },
  epoll_ctl = { { 1, "op", values.epoll_op } },
  eventfd2 = { { 1, "flags", values.eventfd } },
  faccessat = { { 2, "mode", values.access } },
  faccessat2 = { { 2, "mode", values.access } },
  fallocate = { { 1, "mode", values.fallocate } },
  fchmod = { { 1, "mode", octal } },
  fchmodat = { { 2, "mode", octal } },
  fcntl = { { 1, "op", values.fcntl } },
  flock = { { 1, "op", values.flock } },
  futex = { { 1, "op", values.futex_op } },
  getrandom = { { 2, "flags", values.getrandom } },
  getsockopt = { { 1, "level", values.socket_level } },
  inotify_init1 = { { 0, "flags", status } },
  kill = { { 1, "sig", signal } },
  lseek = { { 2, "whence", values.whence } },
  madvise = { { 2, "advice", values.advice } },
  mkdir = { { 1, "mode", octal } },
  mkdirat = { { 2, "mode", octal } },
  mmap = { { 2, "prot", values.prot }, { 3, "flags", values.map } },
  mprotect = { { 2, "prot", values.prot } },
  mremap = { { 3, "flags", values.mremap } },
  msync = { { 2, "flags", values.msync } },
  open = { { 1, "flags", open } },
  openat = { { 2, "flags", open } },
  pidfd_send_signal = { { 1, "sig", signal } },
  pipe2 = { { 1, "flags", status } },
  prlimit64 = { { 1, "resource", values.resource } },
  recvfrom = { { 3, "flags", values.message } },
  recvmmsg = { { 3, "flags", values.message } },
  recvmsg = { { 2, "flags", values.message } },
  renameat2 = { { 4, "flags", values.rename } },
  rt_sigaction = { { 0, "sig", signal } },
  rt_sigprocmask = { { 0, "how", values.sigmask_how } },
  rt_sigqueueinfo = { { 1, "sig", signal } },
  sendmmsg = { { 3, "flags", values.message } },
  sendmsg = { { 2, "flags", values.message } },
  sendto = { { 3, "flags", values.message } },
  setns = { { 1, "nstype", values.clone } },
  setsockopt = { { 1, "level", values.socket_level } },
  shutdown = { { 1, "how", values.shutdown } },
  socket = { { 0, "domain", values.domain }, { 1, "socket_type", values.socket_type } },
  socketpair = { { 0, "domain", values.domain }, { 1, "socket_type", values.socket_type } },
  tgkill = { { 2, "sig", signal } },
  timerfd_create = { { 0, "clockid", values.clock }, { 1, "flags", status } },
  tkill = { { 1, "sig", signal } },
  umask = { { 0, "mask", octal } },
  unlinkat = { { 2, "flags", values.at } },
  unshare = { { 0, "flags", values.clone } },
  wait4 = { { 2, "options", values.wait } },
  waitid = { { 3, "options", values.wait } },
}

--- Returns a function that returns the decoded arguments of a call by name, for `emit`: those of
--- the common calls, named as in `man 2`, and `file_now`, the file that the descriptor is when the
--- line is printed, with the mark ` ?` because it may be another one than during the call.
---@return fun(id: integer, e: perilune.Record): table<string, string>
function syscall_args.decoder()
  local has_file = {} ---@type table<integer, boolean?>
  for _, id in ipairs(calls_by_name.numbers("--than", WITH_FILE)) do has_file[id] = true end
  return function(id, e)
    local args, shown = e.args, {}
    local path = has_file[id] and fd_path(e._pid, args[0])
    if path then shown.file_now = path .. " ?" end
    for _, argument in ipairs(ARGUMENTS[syscall_name(id)] or {}) do
      shown[argument[2]] = argument[3](bit_names.low(args[argument[1]]))
    end
    return shown
  end
end

--- Returns decoded arguments as one text: `flags=RDONLY file_now=/etc/hosts ?`.
---@param shown table<string, string>
---@return string
function syscall_args.joined(shown)
  local parts = {}
  for name, text in pairs(shown) do parts[#parts + 1] = ("%s=%s"):format(name, text) end
  table.sort(parts)
  return table.concat(parts, " ")
end

local AT_FDCWD = -100
-- Calls that return an address.
local RETURN_ADDRESS = { brk = true, mmap = true, mremap = true, shmat = true }

local function address(value) return value == 0 and "NULL" or hex(value) end

local TEXT = {
  address = address, bits = function(value) return hex(value) end,
  long = tostring, ["unsigned long"] = tostring,
  ["unsigned int"] = function(value) return tostring(value % 0x100000000) end,
  int = function(value) return tostring(bit_names.low(value)) end,
}

local function text_of(parameter, value)
  if parameter.name:find "dfd$" and bit_names.low(value) == AT_FDCWD then return "AT_FDCWD" end
  return TEXT[parameter.type](value)
end

--- Returns a call with the names of its parameters, and of the values that have one:
--- `openat(dfd=AT_FDCWD, filename=0x7ffd8f3a, flags=RDONLY|CLOEXEC, mode=0x0)`. Returns nil for a
--- call whose parameters are unknown, and for a record without arguments.
---@param e perilune.Record
---@return string?
local function enter_text(e)
  local call = syscall_name(e.id)
  local parameters = e._event.fields["args"] and syscall_parameters.of(call)
  if not parameters then return nil end
  local args, shown = e.args, {}
  for i, parameter in ipairs(parameters) do
    shown[i] = ("%s=%s"):format(parameter.name, text_of(parameter, args[i - 1]))
  end
  for _, argument in ipairs(ARGUMENTS[call] or {}) do
    local i, name, text = unpack(argument)
    shown[i + 1] = ("%s=%s"):format(name, text(bit_names.low(args[i])))
  end
  return ("%s(%s)"):format(call, table.concat(shown, ", "))
end

--- Returns the result of a call: `openat = -2 ENOENT`.
---@param e perilune.Record
---@return string
local function exit_text(e)
  local call, ret = syscall_name(e.id), e.ret
  if ret < 0 and ret > -4096 then return ("%s = %d %s"):format(call, ret, errno_name(ret)) end
  return ("%s = %s"):format(call, RETURN_ADDRESS[call] and address(ret) or tostring(ret))
end

--- Prints the events of system calls as calls and results, to be called in `m.init`.
function syscall_args.print_calls()
  printer("raw_syscalls:sys_enter", enter_text)
  printer("raw_syscalls:sys_exit", exit_text)
end

return syscall_args
