--- CPU time by mode: shares of a CPU's time in percent, as functions for the columns of `counters`.
local cpu_modes = {}

--- The modes that add up to all of a CPU's time. `user` contains `guest`, and `nice` contains
--- `guest_nice`.
local TIMES = { "user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal" }

--- The modes in the order of columns.
local ALL = { "user", "system", "guest", "irq", "softirq", "steal", "idle" }

--- Opens the kernel's accounting, and hardware counters if available. Returns `user`, `system`,
--- `guest`, `irq`, `softirq`, `steal` and `idle`. They are at most 100, and those of the accounting
--- add up to 100 except for rounding: they are shares of the ticks that the kernel accounted.
---@return table<string, fun(n: fun(ev: perilune.Evsel): number, number): number>
function cpu_modes.open()
  local only, time = { count = true }, {}
  for _, name in ipairs(TIMES) do time[name] = evsel(name .. "-time", only) end
  time.guest, time.guest_nice = evsel("guest-time", only), evsel("guest-nice-time", only)

  local function whole(n)
    local sum = 0
    for _, name in ipairs(TIMES) do sum = sum + n(time[name]) end
    return sum
  end
  local function share(first, second)
    return function(n)
      local both = n(time[first]) + (second and n(time[second]) or 0)
      return math.min(100, 100 * both / whole(n))
    end
  end
  local guest, all = share("guest", "guest_nice"), share("user", "nice")
  local modes = {
    -- The two are read one after the other, and the kernel updates the counts in between.
    user = function(n) return math.max(0, all(n) - guest(n)) end,
    system = share "system", irq = share "irq", softirq = share "softirq", steal = share "steal",
    idle = share("idle", "iowait"), guest = guest,
  }
  local user = evsel("ref-cycles:uH|user-time", only)
  if not user.name:find "^ref%-cycles" then return modes end
  local tsc = evsel("msr/tsc/", { count = true, optional = true })
  -- Cycles can be converted to a share of the time only if the clock's rate is known.
  if not tsc and not machine.tsc_khz then return modes end

  local kernel, guests = evsel("ref-cycles:kH", only), evsel("ref-cycles:G", only)
  local irq, softirq, steal = modes.irq, modes.softirq, modes.steal
  -- The counters are read one after the other, so a quotient may slightly exceed 1.
  local function cycles(ev)
    return function(n)
      local possible = tsc and n(tsc) or whole(n) * machine.tsc_khz / 1e6
      return math.min(100, 100 * n(ev) / possible)
    end
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

--- Returns the names of the modes, in order, that --exclude-user, --exclude-kernel, --exclude-guest
--- and --guest leave.
---@return string[]
function cpu_modes.left(opt)
  local kernel = opt.exclude_kernel or opt.guest
  local hidden = {
    user = opt.exclude_user or opt.guest, guest = opt.exclude_guest,
    system = kernel, irq = kernel, softirq = kernel,
  }
  local left = {}
  for _, name in ipairs(ALL) do
    if not hidden[name] then left[#left + 1] = name end
  end
  return left
end

--- Returns the `exclude` of an evsel that --exclude-user, --exclude-kernel, --exclude-guest and
--- --guest ask for.
---@param opt perilune.Options
---@return perilune.Exclude
function cpu_modes.excluded(opt)
  return {
    user = opt.exclude_user, kernel = opt.exclude_kernel,
    guest = opt.exclude_guest, host = opt.guest,
  }
end

--- Opens what `cpu_modes.open` does. Returns the share of the time in which a CPU was neither idle
--- nor stolen, in the modes that the options leave.
---@return fun(n: fun(ev: perilune.Evsel): number, number): number
function cpu_modes.busy(opt)
  local modes, left = cpu_modes.open(), cpu_modes.left(opt)
  return function(n)
    local sum = 0 ---@type number
    for _, name in ipairs(left) do
      if name ~= "steal" and name ~= "idle" then sum = sum + modes[name](n) end
    end
    return math.min(100, sum)
  end
end

return cpu_modes
