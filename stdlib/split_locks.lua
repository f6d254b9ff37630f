--- The hardware event that counts split locks, by the model of the CPU.
local split_locks = {}

-- sq_misc.split_lock from Nehalem on, which is called sq_misc.bus_lock from Ice Lake on: locks
-- across two cache lines, and those on uncacheable memory as well. The models are those of Linux
-- (arch/x86/include/asm/intel-family.h), the events those of its pmu-events tables.
local SPLIT_LOCK, BUS_LOCK = "r10f4", "r102c"
local INTEL = {
  [SPLIT_LOCK] = {
    0x1a, 0x1e, 0x1f, 0x2e, 0x25, 0x2c, 0x2f,              -- Nehalem, Westmere
    0x2a, 0x2d, 0x3a, 0x3e,                                -- Sandy Bridge, Ivy Bridge
    0x3c, 0x3f, 0x45, 0x46, 0x3d, 0x47, 0x4f, 0x56,        -- Haswell, Broadwell
    0x4e, 0x5e, 0x55, 0x8e, 0x9e, 0xa5, 0xa6,              -- Skylake to Comet Lake, Cooper Lake
    0x7d, 0x7e, 0x6a, 0x6c, 0x8c, 0x8d, 0xa7,              -- Ice Lake, Tiger Lake, Rocket Lake
  },
  [BUS_LOCK] = { 0x8f, 0xcf, 0xad, 0xae },                 -- Sapphire, Emerald, Granite Rapids
}
-- ls_locks.bus_lock, on all Zen processors.
local AMD, ZEN = "r125", { [0x17] = true, [0x19] = true, [0x1a] = true }

--- Returns the model, for a message: `Intel(R) Xeon(R) … (GenuineIntel family 6 model 106)`.
---@param cpu perilune.CpuModel
local function describe(cpu)
  if cpu.vendor == "" then return "this CPU" end
  return ("%s (%s family %d model %d)"):format(cpu.name, cpu.vendor, cpu.family, cpu.model)
end

local DETECTION = {
  off = "the kernel does not detect them (split_lock_detect=off)",
  fatal = "the kernel kills tasks that make them by SIGBUS (split_lock_detect=fatal)",
}

--- Returns how the kernel itself handles split locks.
local function detection()
  local mode = machine.split_lock_detect
  if not mode then return "the kernel cannot detect them on this CPU" end
  local logged = "the kernel logs the tasks that make them (split_lock_detect=%s): see dmesg"
  return DETECTION[mode] or logged:format(mode)
end

--- Raises an error with the model of this machine, the reason why it cannot count split locks, and
--- how its kernel handles them.
function split_locks.refuse(why)
  error(("%s: %s; %s"):format(describe(machine.cpu), why, detection()), 0)
end

--- Returns the event of a model. Raises an error if none is known.
---@param cpu perilune.CpuModel
---@return string
function split_locks.event(cpu)
  if cpu.vendor == "AuthenticAMD" and ZEN[cpu.family] then return AMD end
  for event, models in pairs(cpu.vendor == "GenuineIntel" and cpu.family == 6 and INTEL or {}) do
    for _, model in ipairs(models) do
      if model == cpu.model then return event end
    end
  end
  split_locks.refuse "no hardware event is known to count split locks; pass one with -e"
  return ""
end

return split_locks
