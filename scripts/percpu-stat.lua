--- Counts the kernel's common events: a row for each CPU, a column for each kind of event. The
-- kernel counts, nothing is recorded, and the counters of a CPU are read as one group. Columns:
-- switches, wakeups (on the CPU that wakes), migrations, faults; interrupts of devices, of the
-- timer, reschedule and function-call interrupts; soft interrupts by kind; timers that expired;
-- work items; packets; disk requests; entries into idle states; system calls. perilune's own
-- events are included. Text omits columns of zeros unless -v is given, and continues those that do
-- not fit the terminal in further blocks. A column is missing if the kernel lacks its event.
--   perilune percpu-stat -i 1000
--   perilune percpu-stat -C 0-3 --syscalls
local m = monitor {
  summary = "count the kernel's common events per CPU",
  group = "cpu",
  every = "1s",
  options = { flag { "syscalls", help = "also count system calls, which slows each of them" } },
}

local BEFORE = [[switch context-switches  wakeup sched:sched_wakeup*  migrate cpu-migrations
  fault page-faults  irq irq:irq_handler_entry  tick irq_vectors:local_timer_entry
  resched irq_vectors:reschedule_entry  call irq_vectors:call_function*_entry
  irq_work irq_vectors:irq_work_entry]]
local SOFT = "hi timer net_tx net_rx block irq_poll tasklet sched hrtimer rcu"
local AFTER = [[timer timer:timer_expire_entry  hrtimer timer:hrtimer_expire_entry
  work workqueue:workqueue_execute_start  rx net:netif_receive_skb  tx net:net_dev_xmit
  issue block:block_rq_issue  complete block:block_rq_complete
  idle power:cpu_idle/state!=4294967295/]]

function m.init(opt)
  local columns, vec = { wide = true }, 0
  local function count(title, selector)
    columns[#columns + 1] = evsel(selector, { count = true, optional = true, title = title })
  end
  for title, selector in BEFORE:gmatch "(%S+) (%S+)" do count(title, selector) end
  for name in SOFT:gmatch "%S+" do
    count("soft_" .. name, ("irq:softirq_entry/vec==%d/"):format(vec))
    vec = vec + 1
  end
  for title, selector in AFTER:gmatch "(%S+) (%S+)" do count(title, selector) end
  if opt.syscalls then count("syscall", "raw_syscalls:sys_enter") end
  counters(columns)
end
return m
