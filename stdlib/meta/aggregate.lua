---@meta
--- Aggregates: tables, histograms, counters. Drawn and cleared at each interval; `keep` does not
--- clear. The memory of keys is bounded; values of further keys are added to one row `(evicted)`
--- and counted. A run has at most 1024 aggregates, which live until its end, at a prompt until they
--- are no longer referenced. `:each()` may only be called in `m.interval` and `m.deinit`.
error "this file describes the API to editors and checkers; it cannot be required"

--- A column: its title, or its title and how its value is drawn. False removes the column and the
--- argument of `add` for it.
---@alias perilune.Column string|false|perilune.ColumnSpec

---@class perilune.ColumnSpec
--- Title; the JSON key is the title in snake case: `max(us)` is `max_us`, `share%` is
--- `share_percent`.
---@field [1] string
---@field [2]? fun(value: any): string formats a value when the table is drawn: `syscall_name`
---@field width? integer minimum width
---@field align? "left"|"right"
---@field arrow? boolean joined to the next column by ` => `
--- Type of 64-bit integers, as `expr_of` returns it. A pointer is printed as hexadecimal text, also
--- in JSON. A function is called when the column is drawn.
---@field as? "signed"|"unsigned"|"pointer"|"mixed"|"text"|fun(): string?
---@field decimals? integer in a `report`: number of decimals
--- In a `report`: how the column becomes a metric of `--prometheus`. A counter adds up over the
--- intervals. Dflt: text is a label, a number is a gauge.
---@field metric? "counter"|"gauge"|"label"|"none"

--- Returns the column of the instance (the CPU, or the thread with -p), or `column`, if --perins is
--- set, else false: `latency { perins(), "comm" }`.
---@param column? perilune.Column
---@return perilune.Column
function perins(column) end

---@class perilune.LatencySpec
---@field [integer] perilune.Column keys
---@field unit? "ns"|"us"|"ms"|"s"|"none" unit of the table; none: not times; Dflt: us
---@field count? string title of the count, which is `calls` in JSON; Dflt: calls
---@field title? string line above the table; `table` in JSON, in snake case: `until_it_runs`
---@field top? integer maximum number of rows; Dflt: all
---@field percentiles? boolean p50, p95 and p99 before max; false: only with -v, and always in JSON
---@field keep? boolean

--- Durations by key: calls, total, min, avg, percentiles, max, sorted by total.
---
---     local calls = latency { perins "tid", { "syscall", syscall_name } }
---@param spec perilune.LatencySpec
---@return perilune.Latency
function latency(spec) end

---@class perilune.Latency
local l = {}

--- Adds a duration: `calls:add(s.delay, e._tid, e.id)`. A negative or infinite time or NaN is not
--- added; it is counted as `disordered`.
---@param ns number
---@param ... number|string a value for each column
function l:add(ns, ...) end

--- Adds the delays between two events with equal keys, without a handler:
--- `calls:between(enter, exit, { key = "_tid", rows = { "id" } })`. A start waits for its end in a
--- `pending`; a second start with the same key replaces the first. The kernel measures if it can
--- evaluate the expressions (see --where), and no record is written; otherwise the records are
--- paired in user space, with the same results. See docs/in-kernel.md.
---
--- A side is an evsel, a table with one and its own expressions, or a list of such tables. An
--- evsel may be in both sides: it is an end before it is a start. Two evsels of one event whose
--- filters accept the same events have no such order. Returns the pending of the starts, which has
--- the columns that come from starts as `column1`, `column2`, …
---@param start perilune.PairSide
---@param finish perilune.PairSide
---@param of perilune.PairOptions
---@return perilune.Pending
function l:between(start, finish, of) end

--- Adds a value of each event, without a handler: `sizes:measure(ev, { value = "len" })`. The
--- kernel measures if it can evaluate the expressions and the value has no sign (see --where), and
--- no record is written; otherwise records are handled in user space, with the same results.
---@param events perilune.Evsel|perilune.MeasuredEvent|perilune.MeasuredEvent[]
---@param of perilune.MeasureOptions
---@return perilune.Latency self
function l:measure(events, of) end

--- Iterates over the rows: `for comm, s in slept:each() do … s.total … end`. Times are nanoseconds.
---@return fun(): ...
function l:each() end

--- Clears the table, after its rows were read with `each` and if it is not drawn itself.
function l:clear() end

--- The last value of `:each()` of a latency.
---@class perilune.LatencyRow
---@field calls integer
---@field total number
---@field min number
---@field avg number
---@field max number
---@field p50 number
---@field p95 number
---@field p99 number

---@class perilune.SumColumn
---@field [1] string title
---@field first? boolean whether the rows are sorted by it
---@field as? string type of its values

---@class perilune.KvSpec
---@field [integer] perilune.Column keys
---@field sums? (string|perilune.SumColumn)[] columns that are summed; without sums a count
---@field count? string title of the count; Dflt: count
---@field top? integer maximum number of rows; Dflt: all
---@field style? "top" as in `top`: sums first, 64-bit keys as integers, a line with the time
---@field hide_key? boolean
---@field weight? string title of the sum that is the weight of a flame graph without --weight
---@field title? string line above the table; Dflt: none
---@field name? false|{ [1]: string, [2]?: fun(key: any): string } column of names set by `name`
---@field keep? boolean

--- Counts or sums by key, the largest first; a sum with `first` sorts the rows. Sums are exact up
--- to 1.7e38, beyond that the nearest double; use `as = "unsigned"` for sums of unsigned 64-bit
--- values. A table with a column drawn by `stack_text` is also a flame graph for `--flame-graph`:
--- the other columns are the frames at the root, the weight is the count or the sum named by
--- `--weight`. A second column of stacks is joined to the first: above it, after a frame `--`, with
--- the innermost function first and the columns after it as frames on top. Stacks with the same
--- text are one row. With `keep` the rows are the current totals:
--- the flame graph of a run with -i is that of the last interval.
---
---     local errors = kv { { "syscall", syscall_name }, { "error", errno_name }, count = "errors" }
---@param spec perilune.KvSpec
---@return perilune.Kv
function kv(spec) end

---@class perilune.CountOptions
---@field key string|string[] an expression for each column of the key
---@field where? string an expression that is not 0 for the counted events
---@field sums? string[] expressions that are summed
---@field first? integer the sum that the first of them adds to; 1 without it
---@field name? string an expression of text: the name of a row, from its first event
---@field kind? "number"|"text" the kind that the key must have
---@field mixed? boolean whether integers of other types share a column of the key
---@field late_names? boolean names of `_cgroup` and `_container` may be read at the report only

---@class perilune.Kv
local t = {}

--- Adds one, or the sums: `errors:add(e.id, e.ret)`, `bytes:add(e._comm, e.len)`.
---@param ... number|string a value for each column, then one for each sum
function t:add(...) end

--- Clears the table: after its rows were read with `each` and it is not drawn itself, or with
--- `keep` before its rows are added up again.
function t:clear() end

--- Returns a function that adds to `n` sums, starting with the sum `first`, and returns whether the
--- key has no name yet: `local add = rows:adding(1, 2)`, then
--- `if add(k, a, b) then rows:name(k, e._comm) end`.
---@param first integer
---@param n integer
---@return fun(key: number|string, ...: number): boolean
function t:adding(first, n) end

--- Counts the events of an evsel by key, without a handler:
--- `rows:count(evsel "sched:sched_switch", { key = "prev_pid" })`. The kernel counts if it can
--- evaluate the expressions, and no record is written; otherwise the records are counted in user
--- space, with the same results. The key `_stack` is the stack of an event, whose evsel needs
--- `stack = true`. An evsel may be counted in several tables, and in pairs. See docs/in-kernel.md.
---@param ev perilune.Evsel
---@param of perilune.CountOptions
---@return perilune.Kv
function t:count(ev, of) end

--- Adds a row for each end whose start is known, without a handler, as `latency:between` adds
--- delays. The columns and sums are expressions of the end; those that the end does not have are
--- values that its start keeps. This sums the bytes that are freed, by the task that frees them:
---
---     local freed = kv { "task", sums = { "calls", "bytes" } }
---     freed:between({ evsel "kmem:kmalloc", sums = { [2] = "bytes_alloc" } },
---       { evsel "kmem:kfree", where = "ptr != 0" },
---       { key = "ptr", rows = { "_comm" }, sums = { "1" } })
---
--- Returns the pending of the starts.
---@param start perilune.PairSide
---@param finish perilune.PairSide
---@param of perilune.PairOptions
---@return perilune.Pending
function t:between(start, finish, of) end

--- Names a key: `rows:name(k, e._comm)`.
---@param key number|string
---@param name string
function t:name(key, name) end

--- Iterates over the rows: `for peer, port, n in retransmits:each() do … end`.
---@return fun(): ...
function t:each() end

--- A query over the events of each interval, in an embedded SQLite. Each event of the run is a
--- table with its name without the system (`sched__sched_switch` where two would have one name):
--- its fields, and `_time` (nanoseconds since the run began), `_cpu`, `_pid`, `_tid`, `_comm`. An
--- unsigned value above 2^63 is its negative counterpart; an array is text, `[1,2]`. The functions
--- `ksymbol`, `comm_get`, `syscall_name`, `ntohl`, `ntohs`, `htonl` and `htons` are those of
--- expressions. A query only reads, and has 5 s. If an interval has more events than `rows`, the
--- tables are a sample, and `weight()` is the number of events that each row stands for; the events
--- beyond it are counted as evicted.
---
---     local calls = sql { "SELECT syscall_name(id) AS call, count(*) FROM sys_enter GROUP BY id" }
---     evsel("raw_syscalls:sys_enter", function(e) calls:add(e) end)
---@param spec perilune.SqlSpec
---@return perilune.Sql
function sql(spec) end

---@class perilune.SqlSpec
---@field [integer] string the query
---@field title? string title of the table
---@field rows? integer limit of the rows of all tables of an interval, by default 1000000

---@class perilune.Sql
local q = {}

--- Adds the event of the handler that runs to the table of the event.
---@param e perilune.Record
function q:add(e) end

--- Removes all rows.
function q:clear() end

--- Delays over time, for `--heatmap FILE`: FILE.svg is a heat map with time on the x axis and delay
--- on the y axis, FILE.lat contains each delay. A run has one heat map: further calls return the
--- same.
---
---     local heat = opt.heatmap and heat_map {}
---     …
---     if heat then heat:add(e._time, delay) end
---@param spec {}
---@return perilune.HeatMap
function heat_map(spec) end

---@class perilune.HeatMap
local hm = {}

--- Adds a delay that ended at `time`; both in nanoseconds.
---@param time number usually `e._time`
---@param ns number
function hm:add(time, ns) end

---@class perilune.StackMapSpec
---@field unit? string unit of the weights; Dflt: samples

--- Stacks over time, for the page of `--heatmap FILE.html`: a range of it can be drawn as a flame
--- graph. A run has one: further calls return the same. See `explore.stacks`.
---@param spec perilune.StackMapSpec
---@return perilune.StackMap
function stack_map(spec) end

---@class perilune.StackMap
local sm = {}

--- Adds a weight to a stack.
---@param cell number time in units of 20 ms
---@param comm string the frame below the stack
---@param stack integer
---@param joined integer a stack above it; `stack.none` without one
---@param waker string the frame above that; "" without one
---@param weight number
function sm:add(cell, comm, stack, joined, waker, weight) end

---@class perilune.FlameGraphSpec
---@field title? string title of the SVG image
---@field unit? string unit of the weights; Dflt: samples
---@field keep? boolean

--- Stacks and their weights, for NAME.folded and NAME.svg of `--flame-graph NAME`; otherwise a
--- table.
---
---     local held = flame_graph { title = "bytes not freed", unit = "bytes" }
---@param spec perilune.FlameGraphSpec
---@return perilune.FlameGraph
function flame_graph(spec) end

---@class perilune.FlameGraph
local f = {}

--- Adds to a stack: `held:add(e._stack, e.bytes_alloc, e._comm)`.
---@param stack integer
---@param weight number
---@param root_frame? string frame at the root, usually the process
function f:add(stack, weight, root_frame) end

--- Iterates over the rows: stack, root frame, weight.
---@return fun(): ...
function f:each() end

--- Writes NAME.folded and NAME.svg now.
---@param name string
function f:write(name) end

---@class perilune.HistSpec
---@field [integer] perilune.Column keys: one histogram for each
---@field title? string
---@field unit? string unit of the values
---@field min? number for `linear`: start of the first bucket
---@field step? number for `linear`: width of a bucket
---@field max? number for `linear`: end of the last bucket
---@field keep? boolean
---@field metric? "none" not exported as a metric: another table has the same values

hist = {}

--- Histogram with buckets by powers of two:
--- `hist.log2 { title = "kvm-exit latency", unit = "ns" }`.
---@param spec perilune.HistSpec
---@return perilune.Hist
function hist.log2(spec) end

--- Histogram with buckets of equal width:
--- `hist.linear { title = "depth", min = 0, step = 10, max = 100 }`.
---@param spec perilune.HistSpec
---@return perilune.Hist
function hist.linear(spec) end

---@class perilune.Hist
local h = {}

--- Adds a value: `runs:add(e.runtime, e.comm)`.
---@param value number|string
---@param ... number|string a value for each column
function h:add(value, ...) end

--- Table of counts: a row for each instance, a column for each counted event, or for a function of
--- the counts of the interval. The events are declared with `count = true` and have no handler.
--- Counts of events that shared a hardware counter are scaled, and the report notes it. A cell is
--- empty if nothing was counted: a pinned event without a counter, or a ratio of nothing. A
--- function gets `n`: `n(ev)` returns the count, and the share of the time in which it was counted
--- at most 1; `n(ev, i)` those of `ev.names[i]`, nil where it is not counted. With `wide = true` in
--- `columns`, text output adds a row of sums, omits columns of zeros (`-v` shows them), and shows
--- columns for which a terminal has no room below the others.
---
---     local switches = evsel("context-switches", { count = true })
---     local clock = evsel("cpu-clock", { count = true })
---     counters { switches, { "busy%", function(n) return n(clock) / 1e7 end } }
---@param columns (perilune.Evsel|perilune.CountColumn)[]|{ wide: boolean? }
---@return perilune.Counters
function counters(columns) end

---@class perilune.CountColumn
---@field [1] string title
---@field [2] fun(n: fun(ev: perilune.Evsel, i?: integer): number, number): number returns its value
---@field decimals? integer number of decimals; Dflt: 2

---@class perilune.Counters
local c = {}

--- Iterates over the CPUs or threads that have counts in this interval, each with its `n`:
--- `for cpu, n in c:each() do … n(ev) … end`. For `m.interval`, which gets the interval's length
--- for rates. False iterates once, for the sum of all.
---@param apart? boolean usually `opt.perins`; Dflt: true
---@return fun(): integer|"all", fun(ev: perilune.Evsel, i?: integer): number, number
function c:each(apart) end

--- Returns any other table, for `m.interval`. Each row has a value for each column:
---
---     local columns = { { "thread", comm }, { "ms", width = 8, decimals = 3 } }
---     return report("waiting", columns, { { 4242, 1.5 } })
---@param title string|false
---@param columns perilune.Column[]
---@param rows (number|string)[][] its field `hidden` is the number of rows that are not shown
---@param name? string value of `table` in its JSON rows; Dflt: made from the title
---@return perilune.Report
function report(title, columns, rows, name) end

---@class perilune.Report
