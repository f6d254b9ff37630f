--- How often file data is found in the page cache, by process, in pages.
-- `read`: read by system calls. `mapped`: made accessible by page faults, with those beside them
-- that were in the cache. `added`: put into the cache, by a read from the disk, with readahead, or
-- by a write of new data. `removed`: under memory pressure, by truncation, or on request.
-- `hit%` is the share of read and mapped pages that were not added then: 0 when a file is read
-- for the first time, 100 when it is read again. Readahead adds pages for later reads, so short
-- intervals show too few hits, then too many; a process that also writes shows too few.
-- Each read of a part of a page counts as a page. Direct I/O does not use the cache.
-- Older kernels, such as 6.1, do not report accesses: they show `added` and `removed`.
--   perilune cache -i 1000
--   perilune cache --files -p 1234
local memory, rows = require "memory", require "rows"

local m = monitor {
  summary = "page cache: pages read, mapped, added and removed, and the share of hits",
  group = "memory", order = false,
  options = {
    flag { "files", help = "a row for each file, by device and inode, as well" },
    integer { "rows", default = 30, help = "number of rows" },
  },
}

local pages ---@type perilune.Kv

function m.init(opt)
  local sums = { { "read", first = true }, "mapped", "added", "removed" }
  pages = kv { "comm", opt.files and "dev", opt.files and "inode", sums = sums }
  memory.file_reads(function(e, n) pages:add(e._comm, e.s_dev, e.i_ino, n, 0, 0, 0) end)
  local maps = evsel("filemap:mm_filemap_map_pages", { optional = true }) ---@type perilune.Evsel?
  if maps then
    maps:each(function(e)
      pages:add(e._comm, e.s_dev, e.i_ino, 0, e.last_index - e.index + 1, 0, 0)
    end)
  end
  local add = evsel "filemap:mm_filemap_add_to_page_cache"
  local remove = evsel "filemap:mm_filemap_delete_from_page_cache"
  local size = expr_of(add.fields.order and "1 << order" or "1", add, "number")
  local gone = expr_of(remove.fields.order and "1 << order" or "1", remove, "number")
  add:each(function(e) pages:add(e._comm, e.s_dev, e.i_ino, 0, 0, size(e), 0) end)
  remove:each(function(e) pages:add(e._comm, e.s_dev, e.i_ino, 0, 0, 0, gone(e)) end)
end

function m.interval()
  local list = rows.take(pages, m.opt.rows, function(row)
    local read, mapped, added = unpack(row, #row - 3)
    return read + mapped > 0 and math.max(0, 100 * (1 - added / (read + mapped))) or ""
  end)
  local device_column, inode = m.opt.files and { "dev", device }, m.opt.files and "inode"
  return #list > 0 and report(false, { { "comm", align = "left" }, device_column, inode,
    "read", "mapped", "added", "removed", { "hit%", decimals = 1 } }, list, "pages")
end
return m
