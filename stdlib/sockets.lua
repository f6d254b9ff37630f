--- TCP sockets in the events of the kernel: states and addresses.
local tcp = {}

-- include/net/tcp_states.h
local STATES = {
  "ESTABLISHED", "SYN_SENT", "SYN_RECV", "FIN_WAIT1", "FIN_WAIT2", "TIME_WAIT", "CLOSE",
  "CLOSE_WAIT", "LAST_ACK", "LISTEN", "CLOSING", "NEW_SYN_RECV",
}
local IPV6 = 10

tcp.ESTABLISHED, tcp.SYN_SENT, tcp.SYN_RECV, tcp.FIN_WAIT1 = 1, 2, 3, 4
tcp.CLOSE, tcp.LAST_ACK, tcp.LISTEN = 7, 9, 10

--- Returns the name of a state as ss prints it: `ESTABLISHED`.
---@param state integer
---@return string
function tcp.state(state) return STATES[state] or ("state %d"):format(state) end

--- Returns the address of the peer of a socket, without its port.
---@param e perilune.Record an event with `family`, `daddr` and `daddr_v6`
---@return string
function tcp.peer(e) return ip(e.family == IPV6 and e.daddr_v6 or e.daddr) end

--- Returns the address of the peer with its port: `10.0.0.7:443`, `[2001:db8::1]:443`.
---@param e perilune.Record an event with `family`, `daddr`, `daddr_v6` and `dport`
---@return string
function tcp.peer_port(e)
  local form = e.family == IPV6 and "[%s]:%d" or "%s:%d"
  return form:format(tcp.peer(e), e.dport)
end

return tcp
