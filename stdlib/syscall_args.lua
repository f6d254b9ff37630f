--- Arguments of common system calls as text, from `raw_syscalls:sys_enter`.
local calls_by_name, open_flags = require "calls_by_name", require "open_flags"

local syscall_args = {}

-- Calls whose first argument is a descriptor that they leave open.
local WITH_FILE = "read,write,pread64,pwrite64,readv,writev,preadv*,pwritev*,fstat,lseek,ioctl," ..
  "fsync,fdatasync,syncfs,sync_file_range,ftruncate,fallocate,flock,getdents*,sendto,recvfrom," ..
  "sendmsg,recvmsg,accept*,connect,epoll_wait*,epoll_pwait*,splice"

--- Returns a function that returns the decoded arguments of a call by name, for `emit`: `flags` of
--- an open, and `file_now`, the file that the descriptor is when the line is printed, with the mark
--- ` ?` because it may be another one than during the call.
---@return fun(id: integer, e: perilune.Record): table<string, string>
function syscall_args.decoder()
  local has_file, flags_at = {}, {} ---@type table<integer, boolean?>, table<integer, integer?>
  for _, id in ipairs(calls_by_name.numbers("--than", WITH_FILE)) do has_file[id] = true end
  for _, id in ipairs(calls_by_name.numbers("--than", "openat")) do flags_at[id] = 2 end
  return function(id, e)
    local args, shown = e.args, {}
    local path = has_file[id] and fd_path(e._pid, args[0])
    if path then shown.file_now = path .. " ?" end
    if flags_at[id] then shown.flags = open_flags.text(args[flags_at[id]]) end
    return shown
  end
end

return syscall_args
