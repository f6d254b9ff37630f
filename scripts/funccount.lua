--- Counts calls of functions, or any other events, by name: a glob has a row for each function that
-- it matches and that was called. With -k there is a row for each value of an expression as well.
-- A function that the compiler inlined has no calls; one that is reached by a jump from the end of
-- another function (a tail call) is counted.
-- Each call is recorded. -p is filtered in user space: a probe slows every process that uses the
-- file. `stat -e` counts all calls on whole CPUs in the kernel, at a lower cost.
--   perilune funccount -e 'uprobe:bash:*command*' -- bash -c 'true; true'
--   perilune funccount -e 'kprobe:vfs_*' -i 1000
--   perilune funccount -e 'uprobe:/usr/sbin/nginx:ngx_http_*' -k _comm
local probes, keys = require "probes", require "key"

local m = monitor {
  summary = "calls of functions by name, of all that a glob matches",
  group = "events", order = false,
  options = {
    events { "event", short = "e", required = true, value = "EVENTS", groups = 1,
      help = "functions, 'uprobe:FILE:GLOB' or 'kprobe:GLOB', or any other events" },
    expr { "key", short = "k", help = "a row for each value of this expression as well" },
    "perins",
  },
}

function m.init(opt)
  local list = {}
  for i, s in ipairs(opt.event[1]) do list[i] = { ev = evsel(s), key = opt.key or "0" } end
  local key_of, as = keys.column(list)
  local key_column = opt.key and { opt.key, as = as }
  local calls = kv { perins(), { "function", probes.name }, key_column, count = "calls" }
  for i, one in ipairs(list) do
    local key = key_of[i]
    one.ev:each(opt.key and function(e) calls:add(e._instance, e._event.id, key(e)) end
      or function(e) calls:add(e._instance, e._event.id, 0) end) -- reads no field: one BPF link
  end
end
return m
