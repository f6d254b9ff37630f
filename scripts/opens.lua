--- Files that are opened: process, path, flags, and the descriptor or the error.
-- `path` is the argument as the program passed it, if the record contains it, as since Linux 6.19.
-- For any other open, and for a relative path, `file_now` is the file that the descriptor was when
-- perilune read it from /proc, a few milliseconds after the open. If the program has closed the
-- descriptor by then, there is no `file_now`, and if it has opened another file, `file_now` is that
-- one: ` ?` marks it. A failed open has no descriptor.
-- --path compares the argument in the kernel, on all kernels: '/etc/*' does not match a relative
-- path. An argument whose memory is not resident does not match.
-- The flags of openat2 are in user memory and not shown. Opens by io_uring are not seen.
--   perilune opens --failed
--   perilune opens --path '/etc/*' -- id
local open_flags, user_text = require "open_flags", require "user_text"

local m = monitor {
  summary = "files opened: process, path, flags, error",
  group = "disk", order = true,
  emits = {
    text { "comm" }, number { "pid" }, text { "path" }, text { "flags" }, text { "error" },
    number { "fd" }, text { "file_now" },
  },
  idle = "no watched program opened a file",
  options = {
    flag { "failed", help = "only opens that failed" },
    text { "path", value = "GLOBS", help = "only these paths, as passed: /etc/*,!*.so" },
  },
}

function m.init(opt)
  local calls = pending { "path", "flags", key = "tid" }
  local results = kv { "comm", "pid", { "error", errno_name }, count = "opens", top = 50,
    title = "by process" }

  local function watch(name, enter)
    local ev = evsel("syscalls:sys_enter_" .. name, { optional = true }, enter)
    if not ev then return end
    if opt.path then ev:matching(name == "creat" and "pathname" or "filename", opt.path) end
    -- The descriptor is looked up as soon as possible.
    evsel("syscalls:sys_exit_" .. name, { optional = true, wakeup_events = 1 }, function(e)
      local call, ret = calls:close(e._tid, e), e.ret
      if not call or opt.failed and ret >= 0 then return end
      results:add(e._comm, e._pid, math.min(ret, 0))
      local now = ret >= 0 and call.path:sub(1, 1) ~= "/" and fd_path(e._pid, ret)
      emit { comm = e._comm, pid = e._pid, path = call.path ~= "" and call.path or nil,
        flags = call.flags >= 0 and open_flags.text(call.flags) or nil,
        error = ret < 0 and errno_name(ret) or nil, fd = ret >= 0 and ret or nil,
        file_now = now and now .. " ?" or nil }
    end)
  end
  local function enter(e) calls:open(e._tid, e, user_text.of(e.filename), e.flags) end
  watch("openat", enter)
  watch("open", enter)
  watch("openat2", function(e) calls:open(e._tid, e, user_text.of(e.filename), -1) end)
  watch("creat", function(e) calls:open(e._tid, e, user_text.of(e.pathname), 0x241) end)
end
return m
