--- Packets that the kernel drops, with its reason and the function that dropped them.
local conflict = require "conflict"

local drops = {}

-- include/uapi/linux/if_ether.h
local PROTOCOLS = {
  [0x0800] = "IPv4", [0x0806] = "ARP", [0x8100] = "VLAN", [0x86dd] = "IPv6", [0x88cc] = "LLDP",
}

--- Returns the name of an Ethernet protocol, or its number: `IPv4`, `0x88f7`.
---@param protocol integer
---@return string
function drops.protocol(protocol) return PROTOCOLS[protocol] or hex(protocol) end

--- Counts dropped packets by reason, function and protocol. The reason exists since Linux 5.17; the
--- kernel drops without one as `NOT_SPECIFIED`.
--- Raises an error if one of the options `others` is given, which the event cannot be filtered by.
---@param opt table<string, any>
---@param others string[]
---@return perilune.Kv
function drops.table(opt, others)
  conflict.refuse(opt, others, "the event of --drops, skb:kfree_skb, does not have it")
  local ev = evsel "skb:kfree_skb"
  local names = {}
  local function reason(number) return names[number] or tostring(number) end
  local has_reason = ev.fields.reason
  local rows = kv {
    has_reason and { "reason", reason }, "function", { "protocol", drops.protocol },
    count = "drops",
  }
  local name = expr_of("ksymbol(location)", ev, "text")
  ev:each(function(e)
    local number = has_reason and e.reason or 0
    -- The text of the event has the kernel's name of the reason, which differs between versions.
    names[number] = names[number] or e._text:match "reason: (%S+)"
    rows:add(number, name(e), e.protocol)
  end)
  return rows
end

return drops
