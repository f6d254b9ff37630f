--- Memory pressure: direct reclaim, growth of processes, accesses to the page cache.
local memory = {}

local RECLAIMS = {
  memory = "vmscan:mm_vmscan_direct_reclaim", cgroup = "vmscan:mm_vmscan_memcg_reclaim",
}
-- Maximum number of sizes that `growth` keeps; beyond it, each counts from its next change.
local SIZES_MAX = 100000
local MM_SWAPENTS = 2
-- System calls that read files.
local READS = {
  "read", "pread64", "readv", "preadv", "preadv2", "sendfile64", "copy_file_range",
}

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
--- of the event has made it grow. The first change that a process makes shows the size only: the
--- kernel does not report that a process ends, and reuses its `mm_id`.
---@param handler fun(e: perilune.Sample, bytes: number)
function memory.growth(handler)
  local sizes, owners, count = {}, {}, 0
  local ev = evsel("kmem:rss_stat", function(e)
    local key, size, owner = e.mm_id * 4 + e.member, e.size, e._pid
    local before = sizes[key]
    if not before then
      if count == SIZES_MAX then sizes, owners, count = {}, {}, 0 end
      count = count + 1
    elseif size > before and owners[key] == owner then
      handler(e, size - before)
    end
    sizes[key], owners[key] = size, owner
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

--- Measures how long tasks wait for memory. Returns a function for the end of each interval, which
--- returns a report of their share of the time of this interval and the one before. The report is
--- nil if the kernel does not measure it.
---@return fun(): perilune.Report?
function memory.stalls()
  local time, total = now(), pressure "memory"
  local before, present = { time, total }, { time, total } -- the beginnings of both intervals
  return function()
    local since, first = before[1], before[2]
    time, total = now(), pressure "memory"
    before, present = present, { time, total }
    if not first or not total or time <= since then return nil end
    local rows = {}
    for _, kind in ipairs { "some", "full" } do
      local waited = total[kind].total - first[kind].total
      rows[#rows + 1] = { kind, (time - since) / 1e9, waited / 1e6, 100 * waited / (time - since) }
    end
    return report("pressure", { "tasks", { "of(s)", decimals = 1 },
      { "waited(ms)", decimals = 3 }, { "share%", decimals = 2 } }, rows)
  end
end

--- Watches system calls that read files through the page cache; the run must be ordered. Calls
--- `handler(e, dev, inode, pages, missed)` when one returns: `pages` is the data that it returned,
--- rounded up to pages, and `missed` the number of pages of the file that it added to the cache,
--- those of readahead included. The range in the kernel's event is that of the buffer, which may
--- reach beyond the end of the file, so it is not used.
---
--- Returns a function for each page added, `adds(e, pages)`. If the kernel does not report reads,
--- the handler is never called.
---@param handler fun(e: perilune.Record, dev: number, inode: number, pages: number, missed: number)
---@return fun(e: perilune.Record, pages: number)
function memory.file_reads(handler)
  local found = evsel("filemap:mm_filemap_get_pages", { optional = true })
  if not found then return function() end end
  -- The two files to which the call added pages last: between those of the file that it reads, it
  -- adds metadata, or pages of the file to which it copies.
  local calls = pending {
    "dev", "inode", "missed", "last", "last_pages", "other", "other_pages", key = "tid",
  }
  local function enters(e) calls:open(e._tid, e, 0, 0, 0, 0, 0, 0, 0) end
  local function returns(e)
    local c = calls:close(e._tid, e)
    if c and c.inode ~= 0 and e.ret > 0 then
      handler(e, c.dev, c.inode, math.ceil(e.ret / machine.page_size), c.missed)
    end
  end
  for _, call in ipairs(READS) do
    evsel("syscalls:sys_enter_" .. call, { optional = true }, enters)
    evsel("syscalls:sys_exit_" .. call, { optional = true }, returns)
  end
  -- Is raised when the pages are in the cache, so after the additions.
  found:each(function(e)
    local c, inode = calls:get(e._tid), e.i_ino
    if not c then return end
    c.dev, c.inode = e.s_dev, inode
    if c.last == inode then c.missed = c.missed + c.last_pages
    elseif c.other == inode then c.missed = c.missed + c.other_pages end
    c.last, c.other = 0, 0
  end)
  return function(e, pages)
    local c, inode = calls:get(e._tid), e.i_ino
    if not c then return end
    if c.last == inode then c.last_pages = c.last_pages + pages
    elseif c.other == inode then c.other_pages = c.other_pages + pages
    else c.last, c.last_pages, c.other, c.other_pages = inode, pages, c.last, c.last_pages end
  end
end

return memory
