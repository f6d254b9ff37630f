--- What tasks ask of the kernel: latency and failures of system calls, by call.
--   perilune syscalls
--   perilune syscalls -p 1234 --than 10ms --perins
local m = monitor {
  summary = "latency and errors of system calls, by call",
  order = true, every = "1s",
  options = {
    "perins",
    duration { "than", unit = "us", help = "print enter and exit of each longer call" },
  },
}

function m.init(opt)
  local calls  = latency { perins "tid", { "syscall", syscall_name } }
  local errors = kv { { "syscall", syscall_name }, { "error", errno_name }, count = "errors" }
  local inside = pending { "id", key = "tid", keep = opt.than }

  evsel("raw_syscalls:sys_enter", function(e) inside:open(e._tid, e, e.id) end)
  evsel("raw_syscalls:sys_exit", function(e)
    local call = inside:close(e._tid, e)
    if not call or call.id ~= e.id then return end       -- it began before we did, or it is the return from a signal
    local delay, id, ret = call.delay, call.id, e.ret
    calls:add(delay, e._tid, id)
    if ret < 0 and ret > -4096 then errors:add(id, ret) end
    if opt.than and delay > opt.than then emit(call.event, e) end
  end)
end
return m
