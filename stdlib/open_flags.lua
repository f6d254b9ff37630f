--- Flags of open(2) by name.
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

--- Returns the flags of an open by name: `open_flags.text(0x80000)` is `RDONLY|CLOEXEC`. Bits
--- without a name follow as a hexadecimal number.
---@param flags integer
---@return string
function open_flags.text(flags)
  local is_arm64 = syscall_name(0) == "io_setup"           -- it has the generic table of calls
  local names, rest = { ACCESS[band(flags, 3)] }, band(flags, -4)
  for _, flag in ipairs(FLAGS) do
    local bits = is_arm64 and ARM64[flag[2]] or flag[1]
    if band(rest, bits) == bits then
      names[#names + 1], rest = flag[2], band(rest, bit.bnot(bits))
    end
  end
  if rest ~= 0 then names[#names + 1] = hex(rest) end
  return table.concat(names, "|")
end

return open_flags
