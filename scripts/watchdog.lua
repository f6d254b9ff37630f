--- Predicts soft and hard lockups before the kernel reports them: the CPU, and what it did before.
-- The kernel's watchdog has a timer on each CPU, and each expiry wakes a thread. A soft lockup is
-- predicted when the timer expires and the thread has not run for --than percent of the time after
-- which the kernel reports it, twice kernel.watchdog_thresh. A hard lockup is predicted when the
-- timer has not expired for --than percent of kernel.watchdog_thresh. It is detected by a sample
-- of that CPU if a hardware counter interrupts by NMI, else by the timer of another CPU or of this
-- run, which may be stuck, too, unless taskset keeps it on another CPU; a crash dump contains its
-- rings. `watchdog turns` are times between two expiries of a CPU's timer: 40 % of the threshold.
--   perilune watchdog -g
--   perilune watchdog -F 1 -g --than 80
local lockup = require "lockup"

local m = monitor {
  summary = "predict soft and hard lockups, with what was seen before",
  group = "kernel",
  whole_cpus = true,
  options = {
    "freq", "call-graph",
    percent { "than", default = 60, help = "predict at this share of the kernel's threshold" },
    duration { "thresh", unit = "s", help = "threshold to use instead of kernel.watchdog_thresh" },
  },
}

function m.init(opt)
  local seen = lockup.detector(opt)
  local kernel_only = opt.call_graph and 1
  evsel("timer:hrtimer_expire_entry", {
    filter = lockup.TIMER, stack = opt.call_graph, exclude_callchain_user = kernel_only,
    wakeup_events = 1,                                     -- each one wakes this run, from any CPU
  }, function(e) seen:expired(e) end)
  evsel("timer:hrtimer_start", { filter = lockup.TIMER }, function(e) seen:started(e) end)
  evsel("timer:hrtimer_cancel", { filter = lockup.CANCELLERS }, function(e) seen:cancelled(e) end)
  evsel("sched:sched_switch", { filter = lockup.THREADS }, function(e) seen:switched(e) end)
  local sample = evsel("bus-cycles|cycles|cpu-clock", {
    freq = opt.freq, stack = opt.call_graph, exclude_callchain_user = kernel_only,
    exclude = { idle = true },
  })
  local is_nmi = not sample.name:find "^cpu%-clock"
  sample:each(function(e) seen:sampled(e, is_nmi) end)
  if is_nmi then return end
  note "cpu-clock is not an NMI: hard lockups are predicted from timers that do not expire"
end
return m
