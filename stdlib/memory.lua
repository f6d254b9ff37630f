--- Memory pressure: direct reclaim, growth of processes, accesses to the page cache.
local memory = {}

local RECLAIMS = {
  memory = "vmscan:mm_vmscan_direct_reclaim", cgroup = "vmscan:mm_vmscan_memcg_reclaim",
}
-- Maximum number of sizes that `growth` keeps; beyond it, each counts from its next change.
local SIZES_MAX = 100000
local MM_SWAPENTS = 2

--- Watches direct reclaim: calls `handler(start, e, kind)` when one has ended; `start.delay` is its
--- duration, `pages` were freed by it, and `kind` is "memory", or "cgroup" if a control group has
--- reached its limit.
---@param spec { stack: any, keep: any } whether to take stacks, and to keep the first event
---@param handler fun(start: perilune.State, e: perilune.Sample, kind: string, pages: number)
function memory.reclaims(spec, handler)
  local open = pending { key = "tid", keep = spec.keep }
  for kind, event in pairs(RECLAIMS) do
    evsel(event .. "_begin", { stack = spec.stack }, function(e) open:open(e._tid, e) end)
    evsel(event .. "_end", function(e)
      local start = open:close(e._tid, e)
      if start then handler(start, e, kind, e.nr_reclaimed) end
    end)
  end
end

--- Watches the memory that is resident in each process: calls `handler(e, bytes)` when the process
--- of the event has made it grow.
---@param handler fun(e: perilune.Sample, bytes: number)
function memory.growth(handler)
  local sizes, count = {}, 0
  local ev = evsel("kmem:rss_stat", function(e)
    local key, size = e.mm_id * 4 + e.member, e.size
    local before = sizes[key]
    if not before then
      if count == SIZES_MAX then sizes, count = {}, 0 end
      count = count + 1
    elseif size > before then
      handler(e, size - before)
    end
    sizes[key] = size
  end)
  ev:filter("curr == 1 && member != %d", MM_SWAPENTS)
end

--- Adds the present memory pressure to a row: percent of the last 10 and 60 s.
---@param row table<string, any>
---@return table<string, any> row
function memory.add_pressure(row)
  local now_waiting = pressure "memory"
  if not now_waiting then return row end
  local some, full = now_waiting.some, now_waiting.full or {}
  row.some10, row.some60, row.full10, row.full60 = some.avg10, some.avg60, full.avg10, full.avg60
  return row
end

--- Measures how long tasks wait for memory. Returns a function that returns a report of the share
--- of the time since the start, and then, with `restart`, starts again. The report is nil if the
--- kernel does not measure it.
---@return fun(restart: boolean): perilune.Report?
function memory.stalls()
  local since, first = now(), pressure "memory"
  return function(restart)
    local time, last = now(), pressure "memory"
    if not first or not last or time <= since then return nil end
    local rows = {}
    for _, kind in ipairs { "some", "full" } do
      local waited = last[kind].total - first[kind].total
      rows[#rows + 1] = { kind, (time - since) / 1e9, waited / 1e6, 100 * waited / (time - since) }
    end
    if restart then since, first = time, last end
    return report("pressure", { "tasks", { "of(s)", decimals = 1 },
      { "waited(ms)", decimals = 3 }, { "share%", decimals = 2 } }, rows)
  end
end

--- Watches reads of files through the page cache: calls `handler(e, pages)` with the number of
--- pages that a system call reads. Returns false if the kernel does not report them.
---@param handler fun(e: perilune.Record, pages: number)
---@return boolean
function memory.file_reads(handler)
  local last = pending { "inode", "first", "last", key = "tid" }
  local ev = evsel("filemap:mm_filemap_get_pages", { optional = true })
  if not ev then return false end
  ev:each(function(e)
    local inode, first, final = e.i_ino, e.index, e.last_index
    local s = last:get(e._tid)
    -- A read of many pages reports those that are left again after each batch.
    local again = s and s.inode == inode and s.last == final and first > s.first
    if s then s.inode, s.first, s.last = inode, first, final
    else last:open(e._tid, e, inode, first, final) end
    if not again then handler(e, final - first + 1) end
  end)
  return true
end

return memory
