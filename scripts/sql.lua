--- Runs a SQL query over the events of each interval, in an embedded SQLite.
-- Each event is a table with its name without the system: its fields, and _time (ns since the start
-- of the run), _cpu, _pid, _tid and _comm. Functions: ksymbol, comm_get, syscall_name, ntohl, …
-- If an interval has more events than --rows, the tables are a sample: weight() is the number of
-- events that each row stands for. -o FILE.db keeps the rows of the run, with indexes.
--   perilune sql -e sched:sched_switch --query 'SELECT max(prev_prio) AS prio FROM sched_switch'
--   perilune sql -e signal:signal_generate \
--     --query 'SELECT sig, count(*) AS n FROM signal_generate GROUP BY 1'
--   perilune sql -e raw_syscalls:sys_enter,raw_syscalls:sys_exit slow.sql -o calls.db
local m = monitor {
  summary = "SQL over the events of each interval",
  group = "events", order = true, every = "1s",
  options = {
    events { "event", short = "e", required = true,
      help = "events that become tables: sys:name[/filter/…/],…; globs are allowed" },
    text { "query", value = "SELECT", help = "the query: one SELECT" },
    text_file { "file", value = "QUERY.sql", positional = true, help = "a file with the query" },
    integer { "rows", value = "N", default = 1000000, least = 1,
      help = "rows of all tables of an interval; of more events, a sample is stored" },
    "database",
  },
}
local result ---@type perilune.Sql

function m.init(opt)
  local query = opt.query or opt.file
  if not query then error("no query: give --query 'SELECT …' or QUERY.sql", 0) end
  if opt.query and opt.file then error("--query and QUERY.sql are two queries: omit one", 0) end
  result = sql { query, rows = opt.rows }
  for _, group in ipairs(opt.event) do
    for _, selector in ipairs(group) do evsel(selector, { hide_self = true }) end
  end
end

function m.sample(e) result:add(e) end
return m
