--- Values of arguments of system calls by name, without their common prefix. Each function takes
--- the low 32 bits of an argument; a value without a name is printed as a number. Numbers are those
--- of include/uapi/linux and include/uapi/asm-generic, which x86 and arm64 use.
local bit_names, open_flags = require "bit_names", require "open_flags"

local band = bit.band

-- Returns the function of a list of names.
local function one_of(names)
  return function(value) return names[value] or tostring(value) end
end

-- Returns the function of names of bits.
local function flags(names, zero)
  return function(value) return bit_names.text(value, names, zero) end
end

-- Returns the function of an argument that has one of the values in the bits of `mask`, and flags
-- in the other bits, as `text` writes them.
local function one_and_flags(mask, names, text)
  return function(value)
    local one, rest = band(value, mask), band(value, bit.bnot(mask))
    local name = names[one] or tostring(one)
    return rest == 0 and name or name .. "|" .. text(rest)
  end
end

local clone_flags = flags({
  { 0x80, "NEWTIME" }, { 0x100, "VM" }, { 0x200, "FS" }, { 0x400, "FILES" }, { 0x800, "SIGHAND" },
  { 0x1000, "PIDFD" }, { 0x2000, "PTRACE" }, { 0x4000, "VFORK" }, { 0x8000, "PARENT" },
  { 0x10000, "THREAD" }, { 0x20000, "NEWNS" }, { 0x40000, "SYSVSEM" }, { 0x80000, "SETTLS" },
  { 0x100000, "PARENT_SETTID" }, { 0x200000, "CHILD_CLEARTID" }, { 0x400000, "DETACHED" },
  { 0x800000, "UNTRACED" }, { 0x1000000, "CHILD_SETTID" }, { 0x2000000, "NEWCGROUP" },
  { 0x4000000, "NEWUTS" }, { 0x8000000, "NEWIPC" }, { 0x10000000, "NEWUSER" },
  { 0x20000000, "NEWPID" }, { 0x40000000, "NEWNET" }, { 0x80000000, "IO" },
})

return {
  access = flags({ { 1, "X_OK" }, { 2, "W_OK" }, { 4, "R_OK" } }, "F_OK"),
  advice = one_of { [0] = "NORMAL", "RANDOM", "SEQUENTIAL", "WILLNEED", "DONTNEED", [8] = "FREE",
    [9] = "REMOVE", [10] = "DONTFORK", [11] = "DOFORK", [12] = "MERGEABLE", [13] = "UNMERGEABLE",
    [14] = "HUGEPAGE", [15] = "NOHUGEPAGE", [16] = "DONTDUMP", [17] = "DODUMP", [18] = "WIPEONFORK",
    [19] = "KEEPONFORK", [20] = "COLD", [21] = "PAGEOUT", [22] = "POPULATE_READ",
    [23] = "POPULATE_WRITE", [24] = "DONTNEED_LOCKED", [25] = "COLLAPSE" },
  at = flags { { 0x100, "SYMLINK_NOFOLLOW" }, { 0x200, "REMOVEDIR" } },
  clock = one_of { [0] = "REALTIME", "MONOTONIC", "PROCESS_CPUTIME_ID", "THREAD_CPUTIME_ID",
    "MONOTONIC_RAW", "REALTIME_COARSE", "MONOTONIC_COARSE", "BOOTTIME", "REALTIME_ALARM",
    "BOOTTIME_ALARM", [11] = "TAI" },
  -- The lowest byte is the signal that the child sends when it ends; it is 0 for a thread.
  clone = function(value)
    local signal, rest = band(value, 0x7f), band(value, bit.bnot(0x7f))
    local text = (rest ~= 0 or signal == 0) and clone_flags(rest)
    local sent = signal ~= 0 and "SIG" .. signal_name(signal)
    return text and sent and text .. "|" .. sent or text or sent
  end,
  domain = one_of { [0] = "UNSPEC", "UNIX", "INET", "AX25", [10] = "INET6", [16] = "NETLINK",
    [17] = "PACKET", [29] = "CAN", [31] = "BLUETOOTH", [38] = "ALG", [40] = "VSOCK", [44] = "XDP",
    [45] = "MCTP" },
  epoll_op = one_of { "ADD", "DEL", "MOD" },
  eventfd = function(value)
    return bit_names.text(band(value, -2), { { 0x800, "NONBLOCK" }, { 0x80000, "CLOEXEC" } }, nil,
      band(value, 1) ~= 0 and { "SEMAPHORE" } or nil)
  end,
  fallocate = flags { { 1, "KEEP_SIZE" }, { 2, "PUNCH_HOLE" }, { 8, "COLLAPSE_RANGE" },
    { 0x10, "ZERO_RANGE" }, { 0x20, "INSERT_RANGE" }, { 0x40, "UNSHARE_RANGE" },
    { 0x80, "WRITE_ZEROES" } },
  fcntl = one_of { [0] = "DUPFD", "GETFD", "SETFD", "GETFL", "SETFL", "GETLK", "SETLK", "SETLKW",
    "SETOWN", "GETOWN", "SETSIG", "GETSIG", [15] = "SETOWN_EX", [16] = "GETOWN_EX",
    [36] = "OFD_GETLK", [37] = "OFD_SETLK", [38] = "OFD_SETLKW", [1024] = "SETLEASE",
    [1025] = "GETLEASE", [1026] = "NOTIFY", [1027] = "DUPFD_QUERY", [1029] = "CANCELLK",
    [1030] = "DUPFD_CLOEXEC", [1031] = "SETPIPE_SZ", [1032] = "GETPIPE_SZ", [1033] = "ADD_SEALS",
    [1034] = "GET_SEALS", [1035] = "GET_RW_HINT", [1036] = "SET_RW_HINT" },
  flock = flags { { 1, "SH" }, { 2, "EX" }, { 4, "NB" }, { 8, "UN" } },
  futex_op = one_and_flags(0x7f, { [0] = "WAIT", "WAKE", "FD", "REQUEUE", "CMP_REQUEUE", "WAKE_OP",
    "LOCK_PI", "UNLOCK_PI", "TRYLOCK_PI", "WAIT_BITSET", "WAKE_BITSET", "WAIT_REQUEUE_PI",
    "CMP_REQUEUE_PI", "LOCK_PI2" }, flags { { 0x80, "PRIVATE" }, { 0x100, "CLOCK_REALTIME" } }),
  getrandom = flags { { 1, "NONBLOCK" }, { 2, "RANDOM" }, { 4, "INSECURE" } },
  map = one_and_flags(0xf, { "SHARED", "PRIVATE", "SHARED_VALIDATE" }, flags { { 0x10, "FIXED" },
    { 0x20, "ANONYMOUS" }, { 0x40, "32BIT" }, { 0x100, "GROWSDOWN" }, { 0x800, "DENYWRITE" },
    { 0x1000, "EXECUTABLE" }, { 0x2000, "LOCKED" }, { 0x4000, "NORESERVE" }, { 0x8000, "POPULATE" },
    { 0x10000, "NONBLOCK" }, { 0x20000, "STACK" }, { 0x40000, "HUGETLB" }, { 0x80000, "SYNC" },
    { 0x100000, "FIXED_NOREPLACE" } }),
  message = flags { { 1, "OOB" }, { 2, "PEEK" }, { 4, "DONTROUTE" }, { 8, "CTRUNC" },
    { 0x20, "TRUNC" }, { 0x40, "DONTWAIT" }, { 0x80, "EOR" }, { 0x100, "WAITALL" },
    { 0x800, "CONFIRM" }, { 0x2000, "ERRQUEUE" }, { 0x4000, "NOSIGNAL" }, { 0x8000, "MORE" },
    { 0x10000, "WAITFORONE" }, { 0x4000000, "ZEROCOPY" }, { 0x20000000, "FASTOPEN" },
    { 0x40000000, "CMSG_CLOEXEC" } },
  mremap = flags { { 1, "MAYMOVE" }, { 2, "FIXED" }, { 4, "DONTUNMAP" } },
  msync = flags { { 1, "ASYNC" }, { 2, "INVALIDATE" }, { 4, "SYNC" } },
  prot = flags({ { 1, "READ" }, { 2, "WRITE" }, { 4, "EXEC" }, { 0x1000000, "GROWSDOWN" },
    { 0x2000000, "GROWSUP" } }, "NONE"),
  rename = flags { { 1, "NOREPLACE" }, { 2, "EXCHANGE" }, { 4, "WHITEOUT" } },
  resource = one_of { [0] = "CPU", "FSIZE", "DATA", "STACK", "CORE", "RSS", "NPROC", "NOFILE",
    "MEMLOCK", "AS", "LOCKS", "SIGPENDING", "MSGQUEUE", "NICE", "RTPRIO", "RTTIME" },
  shutdown = one_of { [0] = "RD", "WR", "RDWR" },
  sigmask_how = one_of { [0] = "BLOCK", "UNBLOCK", "SETMASK" },
  socket_level = one_of { [0] = "IP", "SOCKET", [6] = "TCP", [17] = "UDP", [41] = "IPV6",
    [255] = "RAW", [263] = "PACKET", [270] = "NETLINK" },
  socket_type = one_and_flags(0xf, { "STREAM", "DGRAM", "RAW", "RDM", "SEQPACKET", "DCCP",
    [10] = "PACKET" }, open_flags.status),
  wait = flags { { 1, "NOHANG" }, { 2, "UNTRACED" }, { 4, "EXITED" }, { 8, "CONTINUED" },
    { 0x1000000, "NOWAIT" }, { 0x20000000, "NOTHREAD" }, { 0x40000000, "ALL" },
    { 0x80000000, "CLONE" } },
  whence = one_of { [0] = "SET", "CUR", "END", "DATA", "HOLE" },
}
