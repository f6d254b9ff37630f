--- Page tables that KVM keeps for virtual machines: pages mapped, tables made and removed.
-- `entry` is the size of a page that is mapped, or that each of the 512 entries of a table maps. A
-- guest that touches its memory for the first time has a fault in the host for each page: many
-- pages of 4 KiB are slow, pages of 2 MiB need huge pages of the host (`khugepaged`, hugetlbfs).
-- `table removed` and `page split`: the host takes memory back, moves it, or tracks dirty pages, as
-- a live migration does; the guest then has its faults again. `mmio page`: an address of a device.
-- The process is the one that runs: with -p the virtual machine's own threads only, which is not
-- all that the host removes.
--   perilune kvmmmu -i 1000
--   perilune kvmmmu -p 4242
local m = monitor {
  summary = "page tables of virtual machines: pages mapped, tables made and removed",
  group = "vm", order = false,
  idle = "no page table of a virtual machine changed; in a guest, run this on its host",
}

-- Size of what an entry of a table of each level maps (x86: PG_LEVEL_*, 9 bits per level).
local ENTRIES = { "4 KiB", "2 MiB", "1 GiB", "512 GiB", "256 TiB" }
local LEVEL = 15                                           -- of union kvm_mmu_page_role

function m.init()
  local function entry(level) return ENTRIES[level] or ("level %d"):format(level) end
  local changes = kv { "pid", "comm", "change", { "entry", entry }, count = "times" }

  --- Counts an event as a change of entries of the level that the expression `level` computes.
  local function watch(name, change, level, optional)
    local ev = evsel("kvmmmu:" .. name, { optional = optional }) ---@type perilune.Evsel?
    if not ev then return end
    local level_of = expr_of(level, ev, "number")
    ev:each(function(e) changes:add(e._pid, e._comm, change, level_of(e)) end)
  end
  watch("kvm_mmu_set_spte", "page mapped", "level")
  watch("kvm_mmu_get_page/created == 1/", "table made", "role & " .. LEVEL)
  watch("kvm_mmu_prepare_zap_page", "table removed", "role & " .. LEVEL)
  watch("kvm_mmu_split_huge_page", "page split", "level", true)
  watch("mark_mmio_spte", "mmio page", "1")
end
return m
