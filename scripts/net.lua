--- Packets and bytes by network device, direction and protocol; sent ones also by process.
-- A packet is what the network stack hands to the driver or gets from it: with segmentation or
-- receive offload it can be up to 64 KiB and several packets on the wire. Bytes of sent packets
-- include the Ethernet header, those of received ones do not. The protocol of received packets is
-- not in their event: `all`.
-- A sender is the task that runs: packets that the kernel sends in a soft interrupt, such as
-- answers, retransmissions and delayed segments, belong to no process and are shown as `(softirq)`.
-- --drops shows dropped packets instead, with the kernel's reason and function.
--   perilune net -i 1000
--   perilune net --device eth0
--   perilune net --drops
local drops = require "drops"

local m = monitor {
  summary = "packets and bytes by device, direction, protocol and process",
  group = "network", order = false, whole_cpus = true,
  options = {
    text { "device", value = "NAME", help = "only this network device" },
    flag { "drops", help = "show dropped packets by reason and function" },
  },
}

local IN_SOFTIRQ = 0x10                                    -- TRACE_FLAG_SOFTIRQ
local ALL = -1

local function protocol(number) return number == ALL and "all" or drops.protocol(number) end

function m.init(opt)
  if opt.drops then drops.table(opt, { "device" }) return end
  local sums = { "packets", { "bytes", first = true } }
  local devices = kv { "device", "direction", { "protocol", protocol }, sums = sums }
  local senders = kv { "pid", { "comm" }, { "device" }, sums = sums, title = "senders" }

  local function watch(name, handler)
    local ev = evsel(name, handler)
    if opt.device then ev:filter("name == %s", opt.device) end
  end
  watch("net:net_dev_start_xmit", function(e)
    local device, len = e.name, e.len
    devices:add(device, "sent", e.protocol, 1, len)
    if bit.band(e.common_flags, IN_SOFTIRQ) ~= 0 then senders:add(0, "(softirq)", device, 1, len)
    else senders:add(e._pid, e._comm, device, 1, len) end
  end)
  watch("net:netif_receive_skb", function(e) devices:add(e.name, "received", ALL, 1, e.len) end)
end
return m
