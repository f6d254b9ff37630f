--- TCP connections that ended during the run: how long they lasted and the bytes that the process
-- sent and received, by process, direction and peer. --each prints each of them. Connections of
-- all processes are watched, also with a COMMAND.
-- `connect`: opened here. `accept`: opened by the peer. `failed`: never established, each attempt
-- of a socket. `older`: opened before the run, so that duration and bytes are not known; its
-- process is the one that closes it, or `-` if it was reset. The process is the one that connects,
-- or else the first one that sends or receives.
-- Bytes are those of the system calls of this machine; data that is peeked at or that the kernel
-- itself moves is not included. They need Linux 6.3. --rtt costs an event per received packet.
-- --states shows how long sockets stay in each state, --drops dropped packets of all protocols with
-- the kernel's reason and function. --retransmits counts packets that were sent again: one has
-- several segments where the kernel or the device splits it (GSO), and TCP_INFO counts those. Those
-- that the kernel failed to send are not counted, if it reports the error (6.18 does).
--   perilune tcp -i 5000
--   perilune tcp --each --port 443 --rtt
--   perilune tcp --retransmits
local conflict, connections = require "conflict", require "connections"
local drops, tcp = require "drops", require "sockets"

local m = monitor {
  summary = "TCP connections: duration, bytes, states, retransmits, drops",
  group = "network", order = true, whole_cpus = true,
  options = {
    flag { "each", help = "print each connection when it ends" },
    flag { "rtt", help = "show the round-trip time, measured by the kernel" },
    port { "port", help = "only connections from or to this port" },
    flag { "states", help = "show how long sockets stay in each state" },
    flag { "retransmits", help = "show retransmissions by peer and state" },
    flag { "drops", help = "show dropped packets of all protocols by reason and function" },
  },
}

--- Opens an event of TCP sockets of the port.
local function watch(name, opt, handler)
  local ev = evsel(name, handler)
  return opt.port and ev:filter("sport == %d || dport == %d", opt.port, opt.port) or ev
end

local function states(opt)
  local times = latency { { "state", tcp.state, arrow = true }, { "next", tcp.state } }
  local since = pending { key = "pointer" }
  watch("sock:inet_sock_set_state", opt, function(e)
    local sk, state = e.skaddr, e.newstate
    local before = since:close(sk, e)
    if before then times:add(before.delay, e.oldstate, state) end
    if state ~= tcp.CLOSE then since:open(sk, e) end
  end):filter "protocol == 6"
end

function m.init(opt)
  if not (opt.drops or opt.retransmits or opt.states) then return connections.watch(opt, watch) end
  conflict.refuse(opt, { "each", "rtt" }, "--states, --retransmits, --drops show no connections")
  if opt.drops then drops.table(opt, { "port" }) end
  if opt.retransmits then connections.retransmits(opt, watch) end
  if opt.states then states(opt) end
end
return m
