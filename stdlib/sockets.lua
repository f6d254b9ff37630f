--- TCP sockets in the events of the kernel: states and addresses.
local tcp = {}

-- include/net/tcp_states.h
local STATES = {
  "ESTABLISHED", "SYN_SENT", "SYN_RECV", "FIN_WAIT1", "FIN_WAIT2", "TIME_WAIT", "CLOSE",
  "CLOSE_WAIT", "LAST_ACK", "LISTEN", "CLOSING", "NEW_SYN_RECV",
}
local IPV6, PORTS = 10, 65536

tcp.ESTABLISHED, tcp.SYN_SENT, tcp.SYN_RECV, tcp.FIN_WAIT1 = 1, 2, 3, 4
tcp.CLOSE, tcp.CLOSE_WAIT, tcp.LAST_ACK, tcp.LISTEN = 7, 8, 9, 10

--- Returns the name of a state as ss prints it: `ESTABLISHED`.
---@param state integer
---@return string
function tcp.state(state) return STATES[state] or ("state %d"):format(state) end

--- Returns the peer of a socket with its port, for a table column `{ "peer", tcp.peer_text }`. An
--- IPv4 peer is a number, so that handlers build no text; an IPv6 peer, and one that a replayed
--- record has as text, is text.
---@param e perilune.Record an event with `family`, `daddr`, `daddr_v6` and `dport`
---@return number|string
function tcp.peer(e)
  if e.family == IPV6 then return ("[%s]:%d"):format(ip(e.daddr_v6), e.dport) end
  local address = e.daddr
  if #address ~= 4 then return ("%s:%d"):format(address, e.dport) end
  local a, b, c, d = address:byte(1, 4)
  return (((a * 256 + b) * 256 + c) * 256 + d) * PORTS + e.dport
end

--- Returns the same peer without its port.
---@param peer number|string
---@return number|string
function tcp.host(peer)
  if type(peer) == "string" then return peer:match "^%[?(.-)%]?:%d+$" or peer end
  return peer - peer % PORTS
end

--- Returns a peer as text: `10.0.0.7:443`, `[2001:db8::1]:443`; `10.0.0.7` without a port.
---@param peer number|string
---@return string
function tcp.peer_text(peer)
  if type(peer) == "string" then return peer end
  local port, n = peer % PORTS, math.floor(peer / PORTS)
  local address = ip(string.char(math.floor(n / 2 ^ 24), math.floor(n / 2 ^ 16) % 256,
    math.floor(n / 2 ^ 8) % 256, n % 256))
  return port > 0 and ("%s:%d"):format(address, port) or address
end

return tcp
