--- CPU time by mode: shares of a CPU's time in percent, as functions for the columns of `counters`.
local cpu_modes = {}

--- The modes that add up to all of a CPU's time. `user` contains `guest`, and `nice` contains
--- `guest_nice`.
local TIMES = { "user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal" }

--- Opens the kernel's accounting, and hardware counters if available. Returns `user`, `system`,
--- `guest`, `irq`, `softirq`, `steal` and `idle`, which add up to 100 except for rounding, and
--- `tasks`: the time that tasks ran by the scheduler's clock, nil if the kernel lacks the event.
---@return table<string, fun(n: fun(ev: perilune.Evsel): number, number): number>
function cpu_modes.open()
  local only, time = { count = true }, {}
  for _, name in ipairs(TIMES) do time[name] = evsel(name .. "-time", only) end
  time.guest, time.guest_nice = evsel("guest-time", only), evsel("guest-nice-time", only)
  local ran = evsel("sched:sched_stat_runtime", { count = true, optional = true })

  local function whole(n)
    local sum = 0
    for _, name in ipairs(TIMES) do sum = sum + n(time[name]) end
    return sum
  end
  local function share(first, second)
    return function(n)
      local both = n(time[first]) + (second and n(time[second]) or 0)
      return 100 * both / whole(n)
    end
  end
  local guest = share("guest", "guest_nice")
  local modes = {
    system = share "system", irq = share "irq", softirq = share "softirq", steal = share "steal",
    idle = share("idle", "iowait"), guest = guest,
    tasks = ran and function(n) return 100 * n(ran) / whole(n) end or nil,
  }
  local tsc = evsel("msr/tsc/", { count = true, optional = true })
  -- Cycles can be converted to a share of the time only if the clock's rate is known.
  local rated = tsc or machine.tsc_khz
  local user = evsel(rated and "ref-cycles:uH|user-time" or "user-time", only)
  if not user.name:find "^ref%-cycles" then
    local all = share("user", "nice")
    -- The two are read one after the other, and the kernel updates the counts in between.
    modes.user = function(n) return math.max(0, all(n) - guest(n)) end
    return modes
  end

  local kernel, guests = evsel("ref-cycles:kH", only), evsel("ref-cycles:G", only)
  local irq, softirq, steal = modes.irq, modes.softirq, modes.steal
  local function cycles(ev)
    return function(n) return 100 * n(ev) / (tsc and n(tsc) or whole(n) * machine.tsc_khz / 1e6) end
  end
  local in_kernel = cycles(kernel)
  modes.user, modes.guest = cycles(user), cycles(guests)
  modes.system = function(n) return math.max(0, in_kernel(n) - irq(n) - softirq(n)) end
  modes.idle = function(n)
    local busy = modes.user(n) + in_kernel(n) + modes.guest(n) + steal(n)
    return math.max(0, 100 - busy)
  end
  return modes
end

return cpu_modes
