--- Arguments of common system calls as text, from `raw_syscalls:sys_enter`.
local bit_names, calls_by_name = require "bit_names", require "calls_by_name"
local open_flags, values = require "open_flags", require "syscall_values"

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

return syscall_args
