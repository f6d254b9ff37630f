--- Runs a SQL query over the events of each interval, in an embedded SQLite.
-- Each event is a table with its name without the system: its fields, and _time (ns since the start
-- of the run), _cpu, _pid, _tid and _comm. Functions: ksymbol, comm_get, syscall_name, ntohl, …
--   perilune sql -e sched:sched_switch --query 'SELECT max(prev_prio) AS prio FROM sched_switch'
--   perilune sql -e signal:signal_generate \
--     --query 'SELECT sig, count(*) AS n FROM signal_generate GROUP BY 1'
local m = monitor {
  summary = "SQL over the events of each interval",
  group = "events", order = true, every = "1s",
  options = {
    events { "event", short = "e", required = true,
      help = "events that become tables: sys:name[/filter/…/],…; globs are allowed" },
    text { "query", value = "SELECT", required = true, help = "the query: one SELECT" },
    integer { "rows", value = "N", default = 1000000, least = 1,
      help = "rows of all tables of an interval; further events are counted as evicted" },
  },
}
local result ---@type perilune.Sql

function m.init(opt)
  result = sql { opt.query, rows = opt.rows }
  for _, group in ipairs(opt.event) do
    for _, selector in ipairs(group) do evsel(selector, { hide_self = true }) end
  end
end

function m.sample(e) result:add(e) end
return m
