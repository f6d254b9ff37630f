--- How often file data is found in the page cache, by process, in pages.
-- `read`: data that system calls read from files through the cache; each call is rounded up to
-- pages. `missed`: pages that these calls added to the cache, by reading the disk, with readahead.
-- `hit%` is the share of `read` that was not missed: 0 when a file is read for the first time, 100
-- when it is read again. Readahead adds pages for later reads, so short intervals show too few
-- hits, then too many.
-- `faults`: page faults of mapped files that found pages in the cache, at or near their address.
-- `added`: all pages put into the cache: missed ones, those of page faults, and new data of writes.
-- `removed`: under memory pressure, by truncation, or on request.
-- Not in `read`: direct I/O, which does not use the cache, io_uring, and files that the kernel
-- itself reads. Older kernels, such as 6.1, show `added` and `removed` only. Each read call of a
-- process is recorded, also of pipes and sockets.
--   perilune cache -i 1000
--   perilune cache --files -p 1234
local memory, rows = require "memory", require "rows"

local m = monitor {
  summary = "page cache: pages read, missed, added and removed, and the share of hits",
  group = "memory", order = true,
  options = {
    flag { "files", help = "a row for each file, by device and inode, as well" },
    integer { "rows", default = 30, help = "number of rows" },
  },
}

local pages ---@type perilune.Kv

function m.init(opt)
  local sums = { { "read", first = true }, "missed", "faults", "added", "removed" }
  pages = kv { "comm", opt.files and "dev", opt.files and "inode", sums = sums }
  local adds = memory.file_reads(function(e, dev, inode, read, missed)
    pages:add(e._comm, dev, inode, read, missed, 0, 0, 0)
  end)
  evsel("filemap:mm_filemap_map_pages", { optional = true }, function(e)
    pages:add(e._comm, e.s_dev, e.i_ino, 0, 0, 1, 0, 0)
  end)
  local add = evsel "filemap:mm_filemap_add_to_page_cache"
  local remove = evsel "filemap:mm_filemap_delete_from_page_cache"
  local size = expr_of(add.fields.order and "1 << order" or "1", add, "number")
  local gone = expr_of(remove.fields.order and "1 << order" or "1", remove, "number")
  add:each(function(e)
    local n = size(e) ---@type any
    adds(e, n)
    pages:add(e._comm, e.s_dev, e.i_ino, 0, 0, 0, n, 0)
  end)
  remove:each(function(e) pages:add(e._comm, e.s_dev, e.i_ino, 0, 0, 0, 0, gone(e)) end)
end

function m.interval()
  local list = rows.take(pages, m.opt.rows, function(row)
    local read, missed = unpack(row, #row - 4)
    return read > 0 and math.max(0, 100 * (1 - missed / read)) or ""
  end)
  local device_column, inode = m.opt.files and { "dev", device }, m.opt.files and "inode"
  return #list > 0 and report(false, { { "comm", align = "left" }, device_column, inode,
    "read", "missed", "faults", "added", "removed", { "hit%", decimals = 1 } }, list, "pages")
end
return m
