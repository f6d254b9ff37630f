--- The kernel's lockup detector as seen in events: its timer, its threads, its settings.
local away = require "away"

local lockup = {
  -- The timer expires five times before a soft lockup is reported, which happens after twice the
  -- threshold (set_sample_period(), kernel/watchdog.c).
  PERIOD_PERCENT = 40, SOFT = 2,
  TURNS = 20,                                              -- number of checks per threshold
  TIMER = "function.function == watchdog_timer_fn",
  -- Each expiry wakes a thread: the stopper, or watchdog/N before Linux 4.19. A switch away from it
  -- is recorded even if the kernel writes no records of the idle task.
  THREADS = 'next_comm ~ "migration/*" || next_comm ~ "watchdog/*"'
    .. ' || prev_comm ~ "migration/*" || prev_comm ~ "watchdog/*"',
  -- Only these tasks switch the timer off. Without the filter there would be many cancellations of
  -- other timers.
  CANCELLERS = 'COMM ~ "kworker/*" || COMM ~ "cpuhp/*" || COMM ~ "watchdog/*"',
}

--- Returns whether the events come from this machine, not from a recording.
local function is_live() return next(cpu_times()) ~= nil end

--- Returns the threshold in nanoseconds: the kernel reports a hard lockup after this time. A
--- recording contains no sysctls, so `instead` is used unchecked.
---@param instead? number|false use this threshold
---@param share number part of it after which a lockup is predicted
---@param live boolean whether the events come from this machine
local function threshold(instead, share, live)
  if instead and not live then return instead end
  local seconds = sysctl "kernel.watchdog_thresh"
  if not seconds then
    error("this kernel has no lockup detector: it needs CONFIG_LOCKUP_DETECTOR=y", 0)
  end
  if seconds == 0 or sysctl "kernel.watchdog" == 0 then
    error("the kernel's lockup detector is off: set kernel.watchdog=1 and watchdog_thresh=10", 0)
  end
  local expires = seconds * lockup.PERIOD_PERCENT / 100
  if instead and instead / 1e9 * share <= expires then
    error(("--thresh: the kernel's timer expires each %g s (kernel.watchdog_thresh=%g): use more "
      .. "than %.1fs"):format(expires, seconds, expires / share), 0)
  end
  return instead or seconds * 1e9
end

--- Returns the watched CPUs that the detector covers (`watchdog_cpumask`); in a replay, all.
---@param live boolean whether the events come from this machine
---@return integer[]
local function covered_cpus(live)
  local mask, covered, list = tostring(sysctl "kernel.watchdog_cpumask" or ""), {}, {}
  for first, last in mask:gmatch "(%d+)%-?(%d*)" do
    for cpu = tonumber(first), tonumber(last) or tonumber(first) do covered[cpu] = true end
  end
  for _, cpu in ipairs(cpus()) do
    if covered[cpu] or not live then list[#list + 1] = cpu end
  end
  if #list > 0 then return list end
  error(("-C: the kernel's lockup detector covers CPU %s only; name one of them"):format(mask), 0)
end

---@alias perilune.lockup.Kind "soft"|"hard"

---@class perilune.lockup.Detector
---@field share number
---@field thresh number nanoseconds
---@field switches perilune.Pending the last switch to or from the thread, per CPU
---@field samples perilune.Pending the last sample, per CPU
---@field cpus integer[]
---@field turns perilune.Latency
---@field alive table<integer, number> when a CPU last handled the timer or ran the thread
---@field assumed table<integer, number> 1 if that time is assumed: no event of the CPU was seen yet
---@field ran table<integer, number> when a CPU last ran the thread
---@field hard table<integer, number> start of the hard lockup of a CPU that was printed, or 0
---@field soft table<integer, number> the same for soft lockups
---@field timers table<integer, number|string> the address of each CPU's timer
---@field off table<integer, boolean?> whether the timer of a CPU was switched off
---@field stolen_since fun(cpu: integer, from: number): number
---@field turn number when the run's own timer last checked the CPUs
local Detector = {}
Detector.__index = Detector

--- Replaces the event that is kept for its CPU.
local function keep(slot, e)
  slot:close(e._cpu, e)
  slot:open(e._cpu, e)
end

---@param kind perilune.lockup.Kind
---@param lasted number
local function over(kind, cpu, lasted, e)
  emit(e, { lockup = kind, locked_cpu = cpu, over_after_ms = lasted / 1e6 })
end

---@param kind perilune.lockup.Kind
---@param silent number time since the CPU last handled the timer (hard) or ran the thread (soft)
---@param limit number time after which the kernel reports it
---@param e? perilune.Sample the event that shows it
function Detector:predicted(kind, cpu, silent, limit, e)
  local shown = { e } ---@type any[]
  for _, slot in ipairs { self.switches, self.samples } do
    local state = slot:get(cpu)
    if state then shown[#shown + 1] = state.event end
  end
  local ms, limit_ms = silent / 1e6, limit / 1e6
  shown[#shown + 1] =
    { lockup = kind, locked_cpu = cpu, silent_ms = ms, reported_at_ms = limit_ms }
  emit(unpack(shown))
end

--- Returns a detector, which predicts lockups from the events that are passed to it. It prints each
--- lockup once, with the last switch and the last sample of its CPU, and again when it is over.
--- `opt` has `than`, a percentage, and `thresh`.
---@return perilune.lockup.Detector
function lockup.detector(opt)
  if opt.than <= lockup.PERIOD_PERCENT or opt.than > 95 then
    error("--than: the kernel's timer expires each 40 % of the threshold: use 41 to 95", 0)
  end
  local live = is_live()
  ---@type perilune.lockup.Detector
  local self = setmetatable({
    share = opt.than / 100, thresh = threshold(opt.thresh, opt.than / 100, live),
    switches = pending { key = "cpu", keep = true }, samples = pending { key = "cpu", keep = true },
    turns = latency { "cpu", count = "turns", title = "watchdog turns", unit = "ms" },
    cpus = covered_cpus(live), turn = 0, timers = {}, off = {}, stolen_since = away.watch(),
    alive = per_cpu(math.huge), assumed = per_cpu(0), ran = per_cpu(math.huge),
    hard = per_cpu(0), soft = per_cpu(0),
  }, Detector)
  local function period() return math.max(self.thresh / lockup.TURNS / 1e9, 1e-3) end
  every(period(), function(time)
    local seconds = not opt.thresh and sysctl "kernel.watchdog_thresh" or 0
    if seconds > 0 then self.thresh = seconds * 1e9 end
    self:judge(time, time - self.turn)
    self.turn = time
    return period()                                        -- the threshold may change at any time
  end)
  return self
end

--- Handles an expiry of the timer: detects a soft lockup of its CPU, hard lockups of other CPUs.
function Detector:expired(e)
  local cpu, now = e._cpu, e._time
  local own = now - self.alive[cpu]
  self:sign(e)
  self.timers[cpu] = e.hrtimer
  self:judge(now, own)
  if self.ran[cpu] == math.huge then self.ran[cpu] = now end
  local limit, silent = lockup.SOFT * self.thresh, now - self.ran[cpu]
  if silent <= limit * self.share or self.soft[cpu] > 0 then return end
  self.soft[cpu] = self.ran[cpu]
  self:predicted("soft", cpu, silent, limit, e)
end

--- Handles a start of the timer, at each expiry and when the detector is switched on.
function Detector:started(e)
  self.timers[e._cpu] = e.hrtimer
  self:sign(e)
end

--- Handles a cancellation of a timer. If it is this CPU's timer, the detector is off on this CPU.
function Detector:cancelled(e)
  if self.timers[e._cpu] == e.hrtimer then self.off[e._cpu] = true end
end

--- Handles a switch to the thread or away from it.
function Detector:switched(e)
  local cpu = e._cpu
  self:sign(e)
  if self.soft[cpu] > 0 then over("soft", cpu, e._time - self.soft[cpu], e) end
  self.ran[cpu], self.soft[cpu] = e._time, 0
  keep(self.switches, e)
end

--- Handles a sample. A sample by NMI is also taken in a hard lockup, and detects it.
---@param is_nmi boolean
function Detector:sampled(e, is_nmi)
  if is_nmi then self:judge_cpu(e._cpu, e._time, e) end
  keep(self.samples, e)
end

--- Handles an event that proves that its CPU is not in a hard lockup.
function Detector:sign(e)
  local cpu, silent = e._cpu, e._time - self.alive[e._cpu]
  -- Events closer than this belong to one expiry of the timer.
  if silent > self.thresh / 10 and self.assumed[cpu] == 0 then self.turns:add(silent, cpu) end
  if self.hard[cpu] > 0 then over("hard", cpu, e._time - self.hard[cpu], e) end
  self.alive[cpu], self.assumed[cpu], self.hard[cpu], self.off[cpu] = e._time, 0, 0, nil
end

--- Checks all CPUs now. `own` is how long the caller itself was silent before: after a long time
--- the whole virtual machine may have been stopped, so nothing is predicted.
function Detector:judge(now, own)
  if own > self.thresh * self.share then return end
  for _, cpu in ipairs(self.cpus) do self:judge_cpu(cpu, now) end
end

---@param e? perilune.Sample
function Detector:judge_cpu(cpu, now, e)
  local since = self.alive[cpu]
  if since == math.huge then
    self.alive[cpu], self.assumed[cpu] = now, 1
    return
  end
  local limit, silent = self.thresh, now - since
  if self.off[cpu] or self.hard[cpu] > 0 or silent <= limit * self.share then return end
  if silent - self.stolen_since(cpu, since) <= limit * self.share then return end
  self.hard[cpu] = since
  self:predicted("hard", cpu, silent, limit, e)
end

return lockup
