--- Flags of open(2) by name.
local bit_names = require "bit_names"

local open_flags = {}

local band = bit.band

-- Access modes, then include/uapi/asm-generic/fcntl.h; O_SYNC contains O_DSYNC, and O_TMPFILE
-- contains O_DIRECTORY.
local ACCESS = { [0] = "RDONLY", "WRONLY", "RDWR", "ACCMODE" }
local FLAGS = {
  { 0x410000, "TMPFILE" }, { 0x101000, "SYNC" }, { 0x40, "CREAT" }, { 0x80, "EXCL" },
  { 0x100, "NOCTTY" }, { 0x200, "TRUNC" }, { 0x400, "APPEND" }, { 0x800, "NONBLOCK" },
  { 0x1000, "DSYNC" }, { 0x2000, "ASYNC" }, { 0x4000, "DIRECT" }, { 0x8000, "LARGEFILE" },
  { 0x10000, "DIRECTORY" }, { 0x20000, "NOFOLLOW" }, { 0x40000, "NOATIME" },
  { 0x80000, "CLOEXEC" }, { 0x200000, "PATH" },
}
-- arch/arm64/include/uapi/asm/fcntl.h
local ARM64 = { DIRECTORY = 0x4000, NOFOLLOW = 0x8000, DIRECT = 0x10000, LARGEFILE = 0x20000,
  TMPFILE = 0x404000 }

local names = {} ---@type [integer, string][]

-- Returns the flags of this architecture.
local function flag_names()
  local is_arm64 = syscall_name(0) == "io_setup"           -- it has the generic table of calls
  for i, flag in ipairs(FLAGS) do
    names[i] = names[i] or { is_arm64 and ARM64[flag[2]] or flag[1], flag[2] }
  end
  return names
end

--- Returns the status flags alone by name, as fcntl(2), pipe2(2) and accept4(2) take them:
--- `open_flags.status(0x80800)` is `NONBLOCK|CLOEXEC`.
---@param flags integer of 32 bits
---@return string
function open_flags.status(flags) return bit_names.text(flags, flag_names()) end

--- Returns the flags of an open by name: `open_flags.text(0x80000)` is `RDONLY|CLOEXEC`. Bits
--- without a name follow as a hexadecimal number.
---@param flags integer of 32 bits
---@return string
function open_flags.text(flags)
  return bit_names.text(band(flags, -4), flag_names(), nil, { ACCESS[band(flags, 3)] })
end

return open_flags
