--- Look-ups of host names: name, duration and result, by calls of getaddrinfo in the C library.
-- `ok`, or the error of getaddrinfo: `NONAME` the name does not exist, `AGAIN` no server answered,
-- `FAIL` a server failed. The time includes all servers, retries and search domains. Names from
-- /etc/hosts and of a cache daemon are look-ups as well.
-- Not seen: programs with a resolver of their own (Go, c-ares, static ones) and other C libraries;
-- --library is the one of a container: /proc/PID/root/….
-- `-` is a call without a name, as of a server that asks for its own addresses. Names need Linux
-- 6.12; on older kernels all are `-`.
--   perilune dns -i 5000
--   perilune dns --than 100ms
local conflict = require "conflict"

local m = monitor {
  summary = "look-ups of host names: name, duration, result",
  group = "network", order = true,
  emits = { number { "pid" }, text { "comm" }, text { "name" }, text { "result" },
    number { "ms" } },
  options = {
    text { "library", value = "FILE", default = "libc.so.6", help = "C library" },
    flag { "each", help = "print each look-up" },
    duration { "than", unit = "ns", help = "print each longer look-up" },
  },
}

-- EAI_* of netdb.h, in glibc.
local RESULTS = {
  [0] = "ok", [-1] = "BADFLAGS", [-2] = "NONAME", [-3] = "AGAIN", [-4] = "FAIL", [-5] = "NODATA",
  [-6] = "FAMILY", [-7] = "SOCKTYPE", [-8] = "SERVICE", [-10] = "MEMORY", [-11] = "SYSTEM",
}

function m.init(opt)
  if opt.each then conflict.refuse(opt, { "than" }, "--each prints every look-up") end
  local function result(number) return RESULTS[number] or tostring(number) end
  local times = latency { "comm", "name", { "result", result } }
  local calls = pending { "name", key = "tid" }
  local than = opt.each and -1 or opt.than or math.huge
  local call = ("uprobe:%s:getaddrinfo"):format(opt.library)

  local function asks(e) calls:open(e._tid, e, e.arg1_text ~= "(fault)" and e.arg1_text or "-") end
  local function asks_unknown(e) calls:open(e._tid, e, "-") end
  local known = pcall(function() evsel(call .. "(arg1.text)", asks) end)
  if not known then evsel(call, asks_unknown) end
  local function returns(e)
    local asked = calls:close(e._tid, e)
    if not asked then return end
    local number = bit.tobit(e.retval)
    times:add(asked.delay, e._comm, asked.name, number)
    if asked.delay <= than then return end
    emit { pid = e._pid, comm = e._comm, name = asked.name, result = result(number),
      ms = asked.delay / 1e6 }
  end
  evsel(("uretprobe:%s:getaddrinfo"):format(opt.library), returns)
end
return m
