--- How long calls of functions take, from call to return, by function. A glob has a row for each
-- function that it matches.
-- The time is wall time: it includes sleeps, interrupts and the functions that are called inside. A
-- recursive call counts as a call of its own, and its time is also part of the call around it.
-- The probes themselves take time, which is part of each call and twice of those around it: a
-- microsecond for a function of the kernel, several for one of a program. Do not measure shorter
-- functions with it.
-- A call that began before the run, or that ends in another way than by a return (longjmp, the end
-- of the thread), has no duration and is unmatched.
-- A program aborts if an exception of C++ or a panic of Rust passes through a watched function, or
-- if the stack of a watched function of Go grows. Use funccount for these.
--   perilune funclatency -e 'uprobe:bash:*command*' -- bash -c 'sleep 0.1; true'
--   perilune funclatency -e kprobe:vfs_fsync_range --histogram -i 1000
--   perilune funclatency -e uprobe:libc.so.6:getaddrinfo --than 100ms -p 1234
local delays, probes = require "delays", require "probes"

local m = monitor {
  summary = "how long calls of functions take",
  group = "events", order = true, emits = { number { "delay_us" } },
  options = {
    events { "event", short = "e", required = true, value = "FUNCTIONS", groups = 1,
      help = "functions, 'uprobe:FILE:GLOB' or 'kprobe:GLOB'" },
    duration { "than", unit = "ns", help = "print call and return of each longer call" },
    flag { "histogram", help = "also draw a histogram of each function" },
    "perins", "heatmap",
  },
}

function m.init(opt)
  local number, name = probes.numbers()
  local column = { "function", name }
  local add = delays.table(opt, { perins "tid", column })
  local spread = opt.histogram and hist.log2 { column, title = "duration", unit = "ns",
    metric = "none" } or nil ---@type perilune.Hist?
  --- Returns the handlers of calls and of returns. Only returns in user space have a depth limit.
  local function handlers(user)
    local open = pending { "call", key = "tid", nested = true, uretprobes = user, keep = opt.than }
    return function(e) open:open(e._tid, e, number(e._event.id)) end, function(e)
      local tid, call = e._tid, number(e._event.id)
      local began = open:close(tid, e, call)
      if not began then return end
      local delay = began.delay
      add(began, e, delay, tid, call)
      if spread then spread:add(delay, call) end
    end
  end
  local user_call, user_return = handlers(true)
  local kernel_call, kernel_return = handlers(false)
  for _, s in ipairs(opt.event[1]) do
    local plain = { registers = not opt.than and not s.filter } -- one BPF link for many
    local is_user = s.name:find "^u" ~= nil
    evsel(s, plain, is_user and user_call or kernel_call)
    evsel(probes.returns(s), is_user and user_return or kernel_return)
  end
end
return m
