--- Time that the host takes to handle exits of virtual machines, by exit reason.
-- HLT is the guest's idle time. The histogram contains all exits. The time continues while another
-- task runs on the CPU. With -p an exit belongs to the thread of its virtual CPU, else to the CPU.
--   perilune kvm-exit -C 5-20 -i 1000 --than 1000us
--   perilune kvm-exit -p 4242 --perins
local delays = require "delays"

local m = monitor {
  summary = "how long exits of virtual machines take, by reason",
  group = "vm",
  idle = "no virtual machine ran here; in a guest there are no exits, run this on its host",
  order = true,
  options = {
    duration { "than", unit = "us", help = "print exit and entry of each longer one" },
    "detail", "perins", "heatmap",
  },
}

function m.init(opt)
  local spread = hist.log2 { title = "kvm-exit latency", unit = "ns" }
  local add = delays.table(opt, { perins(), "exit_reason", percentiles = false }, {
    heading = function(_, reason) return { { "exit_reason", reason } } end,
  })
  local out = pending { "reason", keep = opt.than }

  local exit = evsel "kvm:kvm_exit"
  local source = exit.fields.isa and "exit_reason_str(isa, exit_reason)"
    or "exit_reason_str(exit_reason)"
  local reason = expr_of(source, exit, "text")
  exit:each(function(e) out:open(e._instance, e, reason(e)) end)
  evsel("kvm:kvm_entry", function(e)
    local exit = out:close(e._instance, e)
    if not exit then return end
    local delay = exit.delay
    spread:add(delay)
    add(exit, e, delay, e._instance, exit.reason)
  end)
end
return m
