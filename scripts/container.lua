--- Use of each container: CPU time, switches, page faults, bytes to and from disks and networks.
-- `-` is everything outside of containers, `cgroup:ID` a control group that was removed before its
-- name was read. --groups shows control groups instead, by path.
-- Names are those of docker, containerd, CRI-O, podman, systemd-nspawn, LXC and Kubernetes; if the
-- files of the runtime are unknown, the short id.
-- A container is charged for what its tasks do themselves. Disk writes that the kernel does later
-- and packets that it handles in soft interrupts are not attributed to it. `disk_bytes` are
-- reads and writes of block devices, at each device of a stack (LVM, RAID), without discards;
-- `net_bytes` those of system calls on IPv4 and IPv6 sockets (since Linux 6.3), without data that
-- is only peeked at.
-- CPU time and page faults are recorded, the rest is counted by the kernel, or with cgroup v1 also
-- recorded: a machine with many switches is slowed by a few percent.
--   perilune container -i 1000
--   perilune container --groups
local running = require "running"

local m = monitor {
  summary = "CPU, switches, faults, disk and network I/O by container",
  group = "processes", order = true, every = "1s",
  options = { flag { "groups", help = "a row for each control group instead" } },
}

local SECTOR, IP = 512, "ret > 0 && (family == 2 || family == 10)"
-- Not discards, nor writes of zeroes: "N" in older kernels, "WZ" in newer ones.
local DATA = "rwbs[0] != 'D' && rwbs[0] != 'N' && (rwbs[0] << 8 | rwbs[1]) != 0x575a"

function m.init(opt)
  local sums = { { "cpu_ns", first = true }, "switches", "faults", "disk_bytes", "net_bytes" }
  local rows = kv { opt.groups and "cgroup" or "container", sums = sums }
  local field = opt.groups and "_cgroup" or "_container"

  --- Counts an event in the kernel, if this kernel has it, and adds a value to column `n`.
  ---@param ev perilune.Evsel|nil
  local function count(ev, n, of)
    if ev then rows:count(ev, { key = field, sums = { of }, first = n, late_names = true }) end
  end
  count(evsel "sched:sched_switch", 2, "1")
  count(evsel(("block:block_bio_queue/%s/"):format(DATA)), 4, ("nr_sector * %d"):format(SECTOR))
  count(evsel(("sock:sock_send_length/%s/"):format(IP), { optional = true }), 5, "ret")
  local not_peeked = ("sock:sock_recv_length/%s && !(flags & 2)/"):format(IP) -- MSG_PEEK
  count(evsel(not_peeked, { optional = true }), 5, "ret")

  -- Records: a program misses events of an interrupt that hits another program, and each of these
  -- may be milliseconds; and the name of a new container is read soon.
  local function record(ev, n)
    local add, group = rows:adding(n, 1), expr_of(field, ev, "text")
    return function(e, value) add(group(e), value) end
  end
  running.used(function(ev) return record(ev, 1) end)
  local faults = evsel("page-faults", { period = 1 })
  local add_fault = record(faults, 3)
  faults:each(function(e) add_fault(e, 1) end)
end
return m
