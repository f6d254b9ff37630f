--- TCP connections, from their first event to their end.
local tcp = require "sockets"
local band = bit.band

local connections = {}

local IPPROTO_TCP, MSG_PEEK = 6, 2
local SYN_SENT, SYN_RECV, ESTABLISHED = tcp.SYN_SENT, tcp.SYN_RECV, tcp.ESTABLISHED
local FIN_WAIT1, LAST_ACK, CLOSE, LISTEN = tcp.FIN_WAIT1, tcp.LAST_ACK, tcp.CLOSE, tcp.LISTEN
local CLOSE_WAIT = tcp.CLOSE_WAIT

--- Returns the tables of connections that ended, and a function that adds one: `c` is its state,
--- `e` the event that ended it. Without `has_bytes` the kernel does not report bytes.
local function tables(opt, has_bytes)
  local to, sums = { "peer", tcp.peer_text }, { "sent", "received" }
  local times = latency { "comm", "how", to, title = "connections", count = "conns" }
  local bytes ---@type perilune.Kv?
  if has_bytes then bytes = kv { "comm", "how", to, sums = sums, title = "bytes" } end
  local trips = opt.rtt and latency { "comm", "how", to, title = "round trip", count = "conns" }
  return function(c, e, life)
    local peer = c.peer
    if c.how == "accept" then peer = tcp.host(peer) end
    times:add(life, c.comm, c.how, peer)
    if bytes then bytes:add(c.comm, c.how, peer, c.sent, c.received) end
    if trips and c.rtt > 0 then trips:add(c.rtt * 1e3, c.comm, c.how, peer) end
    if not opt.each then return end
    emit {
      pid = c.pid, comm = c.comm, how = c.how, peer = tcp.peer_text(c.peer),
      port = e.sport > 0 and e.sport or nil,               -- 0: the kernel has released it
      sent = has_bytes and c.sent or nil, received = has_bytes and c.received or nil,
      ms = life / 1e6, rtt_us = c.rtt > 0 and c.rtt or nil,
    }
  end
end

--- Counts TCP connections. `watch(name, opt, handler)` opens an event with the ports of a socket.
function connections.watch(opt, watch)
  local open = pending {
    "how", "peer", "pid", "comm", "sent", "received", "rtt", "ended", key = "pointer",
  }

  --- Sets the process of an accepted connection: an event outside of a system call is raised by
  --- any task, an interrupted one.
  local function owned_by(c, e)
    if c.pid == 0 then c.pid, c.comm = e._pid, e._comm end
  end
  local function moved(name, handler)
    local ev = evsel(name, { optional = true }) ---@type perilune.Evsel?
    if ev then ev:each(handler):filter(("protocol == %d && ret > 0"):format(IPPROTO_TCP)) end
    return ev
  end
  local sends = moved("sock:sock_send_length", function(e)
    local c = open:get(e.sk)
    if c then owned_by(c, e) c.sent = c.sent + e.ret end
  end)
  moved("sock:sock_recv_length", function(e)
    local c = band(e.flags, MSG_PEEK) == 0 and open:get(e.sk)
    if c then owned_by(c, e) c.received = c.received + e.ret end
  end)
  if not sends then note("this kernel does not report bytes of sockets; Linux 6.3 and later do") end
  local add = tables(opt, sends ~= nil)
  local older = kv { "comm", { "peer", tcp.peer_text }, count = "conns", title = "older" }
  local function ended(sk, e)
    local c = open:close(sk, e)
    if c then add(c, e, c.ended > 0 and c.ended or c.delay) end
  end
  local function followed(sk, e, from, to)
    local c = open:get(sk)
    if c and to == ESTABLISHED and from == SYN_SENT then c.how = "connect" end
    local closes = to == FIN_WAIT1 or to == LAST_ACK
    if c and closes then owned_by(c, e) end
    if c and to == CLOSE then c.ended = e._time - c.time end
    if c then return end
    if closes then older:add(e._comm, tcp.peer(e))
    elseif to == CLOSE and (from == ESTABLISHED or from == CLOSE_WAIT) then
      older:add("-", tcp.peer(e))                          -- a reset, in an interrupt
    end
  end
  watch("sock:inet_sock_set_state", opt, function(e)
    local sk, from, to = e.skaddr, e.oldstate, e.newstate
    if to == SYN_SENT then
      -- A socket can connect again after its connection has ended.
      local before = open:get(sk)
      if before and before.ended > 0 then ended(sk, e) end
      open:open(sk, e, "failed", tcp.peer(e), e._pid, e._comm, 0, 0, 0, 0)
    elseif to == SYN_RECV then
      open:open(sk, e, "accept", tcp.peer(e), 0, "-", 0, 0, 0, 0)
    elseif from == SYN_SENT and to == CLOSE then ended(sk, e)
    elseif from ~= LISTEN then followed(sk, e, from, to) end
  end):filter "protocol == 6"
  -- Data may be read after the state CLOSE, until the process closes the socket. Then the port of a
  -- peer may be 0: no filter by port.
  evsel("tcp:tcp_destroy_sock", function(e) ended(e.skaddr, e) end)

  if opt.rtt then
    local probe = watch("tcp:tcp_probe", opt, function(e)
      local c = open:get(e.skaddr)
      if c then c.rtt = e.srtt end
    end)
    if not probe.fields.skaddr then
      error("--rtt: tcp:tcp_probe of this kernel does not contain the socket; omit --rtt", 0)
    end
  end
end

--- Counts packets that were sent again, by peer and state, without those that the kernel failed to
--- send, if it reports the error.
function connections.retransmits(opt, watch)
  local rows = kv { { "peer", tcp.peer_text }, { "state", tcp.state }, count = "retransmits" }
  local ev = watch("tcp:tcp_retransmit_skb", opt, function(e) rows:add(tcp.peer(e), e.state) end)
  if ev.fields.err then ev:filter "err == 0" end
end

return connections
