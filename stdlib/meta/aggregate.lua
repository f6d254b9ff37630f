---@meta
--- What adds up: tables, histograms, counters. Drawn at each interval and then begun anew, unless `keep`.
--- Keys are bounded in bytes; what does not fit goes to one row `(evicted)`, and is counted. A run has at most 1024 of
--- these objects; they live as long as it does, at a prompt until nothing holds them any more. `:each()` is for `m.interval` and `m.deinit` only.
error "this file describes the API to editors and checkers; it cannot be required"

--- A column: its title; or title and how its value is drawn; or false, which takes its argument of `add` with it.
---@alias perilune.Column string|false|perilune.ColumnSpec

---@class perilune.ColumnSpec
---@field [1] string title; the JSON key is the title in snake case: `max(us)` is `max_us`, `share%` is `share_percent`
---@field [2]? fun(value: any): string runs when it is drawn: `syscall_name`
---@field width? integer at least
---@field align? "left"|"right"
---@field arrow? boolean joined to the next by ` => `
---@field as? "signed"|"unsigned"|"pointer"|"mixed"|"text"|fun(): string? type of 64-bit integers, as `expr_of` returns it; a pointer is printed as hexadecimal text, also in JSON; a function is called when the column is drawn
---@field decimals? integer of `report`: digits behind the point

--- The instance's column (the CPU, or the thread with -p; or the one given), only with --perins: `latency { perins(), "comm" }`.
---@param column? perilune.Column
---@return perilune.Column
function perins(column) end

---@class perilune.LatencySpec
---@field [integer] perilune.Column keys
---@field unit? "ns"|"us"|"ms"|"s" of the table; Dflt: us
---@field count? string title of the count, which is `calls` in JSON; Dflt: calls
---@field title? string a line above the table, which tells it from others; its `table` in JSON, in lower case: `until_it_runs`
---@field top? integer rows; Dflt: all
---@field percentiles? boolean p50, p95 and p99 before max; false leaves them to -v and --json, which always has them
---@field keep? boolean

--- Durations by key: calls, total, min, avg, percentiles, max, sorted by total.
---
---     local calls = latency { perins "tid", { "syscall", syscall_name } }
---@param spec perilune.LatencySpec
---@return perilune.Latency
function latency(spec) end

---@class perilune.Latency
local l = {}

--- Adds one: `calls:add(s.delay, e._tid, e.id)`. A negative or infinite time or NaN is not added;
--- it is counted as `disordered`.
---@param ns number
---@param ... number|string a value for each column
function l:add(ns, ...) end

--- The rows: `for comm, s in slept:each() do … s.total … end`. Times are nanoseconds.
---@return fun(): ...
function l:each() end

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
---@field [1] string its title
---@field first? boolean the rows are sorted by it
---@field as? string how its values are read

---@class perilune.KvSpec
---@field [integer] perilune.Column keys
---@field sums? (string|perilune.SumColumn)[] what is summed; `first` sorts the rows; without sums a count; `as = "unsigned"` for unsigned 64-bit values; sums are exact up to 1.7e38, and the nearest double beyond
---@field count? string title of the count; Dflt: count
---@field top? integer rows; Dflt: all
---@field style? "top" the look of `top`: sums before names, 64-bit keys as integers (`as = "signed"`), and a line with the time and the events
---@field hide_key? boolean
---@field name? false|{ [1]: string, [2]?: fun(key: any): string } a column of names, which `name` sets
---@field keep? boolean

--- Counts or sums by key, the largest first. With a column drawn by `stack_text` it is a flame graph for `--flame-graph`, too:
--- the other columns are the frames at the root, and the count of the rows weighs, or the sum that `--weight` names. Stacks that
--- read the same are one row. With `keep` its rows tell how things stand: the picture of a run with -i is the last one's.
---
---     local errors = kv { { "syscall", syscall_name }, { "error", errno_name }, count = "errors" }
---@param spec perilune.KvSpec
---@return perilune.Kv
function kv(spec) end

---@class perilune.Kv
local t = {}

--- Adds one, or the sums: `errors:add(e.id, e.ret)`, `bytes:add(e._comm, e.len)`.
---@param ... number|string a value for each column, then one for each sum
function t:add(...) end

--- Begins anew: what was read with `each` and is not drawn itself, or, with `keep`, what is about to be added up anew.
function t:clear() end

--- A function that adds to `n` sums from the `first` on, and says whether the key has no name yet:
--- `local add = rows:adding(1, 2)`, then `if add(k, a, b) then rows:name(k, e._comm) end`.
---@param first integer
---@param n integer
---@return fun(key: number|string, ...: number): boolean
function t:adding(first, n) end

--- Names a key: `rows:name(k, e._comm)`.
---@param key number|string
---@param name string
function t:name(key, name) end

--- The rows: `for peer, port, n in retransmits:each() do … end`.
---@return fun(): ...
function t:each() end

--- Delays over time, for `--heatmap FILE`: a picture in FILE.svg, time to the right and the delay upwards, and each of them in FILE.lat. A
--- run has one: who asks again gets the same.
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
---@param time number mostly `e._time`
---@param ns number
function hm:add(time, ns) end

---@class perilune.FlameGraphSpec
---@field title? string of the picture
---@field unit? string of the weights; Dflt: samples
---@field keep? boolean

--- Stacks and what each weighs, for NAME.folded and NAME.svg of `--flame-graph NAME`; without it a table.
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
---@param root_frame? string the frame at the root: the process, usually
function f:add(stack, weight, root_frame) end

--- The rows: stack, root frame, weight.
---@return fun(): ...
function f:each() end

--- Writes NAME.folded and NAME.svg now.
---@param name string
function f:write(name) end

---@class perilune.HistSpec
---@field [integer] perilune.Column keys: a histogram for each
---@field title string
---@field unit? string of the values
---@field min? number of `linear`: the first bucket's start
---@field step? number of `linear`: width of a bucket
---@field max? number of `linear`: the last bucket's end
---@field keep? boolean

hist = {}

--- Buckets by powers of two: `hist.log2 { title = "kvm-exit latency", unit = "ns" }`.
---@param spec perilune.HistSpec
---@return perilune.Hist
function hist.log2(spec) end

--- Buckets of one width: `hist.linear { title = "depth", min = 0, step = 10, max = 100 }`.
---@param spec perilune.HistSpec
---@return perilune.Hist
function hist.linear(spec) end

---@class perilune.Hist
local h = {}

--- Adds one: `runs:add(e.runtime, e.comm)`.
---@param value number|string
---@param ... number|string a value for each column
function h:add(value, ...) end

--- A row for each instance, a column for each counted event, or for what a function makes of their counts, which
--- are those of the interval. Their events are declared with `count = true` and have no handler.
--- Counters that shared their hardware are scaled, and the report says so. A cell is empty where
--- nothing was counted: a pinned event found no counter, or a ratio is of nothing. A function gets
--- `n`: `n(ev)` is the count, and as a second value the part of the time that it was counted, 1 or
--- less.
---
---     local switches, clock = evsel("context-switches", { count = true }), evsel("cpu-clock", { count = true })
---     counters { switches, { "busy%", function(n) return n(clock) / 1e7 end } }
---@param columns (perilune.Evsel|perilune.CountColumn)[]
---@return perilune.Counters
function counters(columns) end

---@class perilune.CountColumn
---@field [1] string its title
---@field [2] fun(n: fun(ev: perilune.Evsel): number, number): number what it shows
---@field decimals? integer digits behind the point; Dflt: 2

---@class perilune.Counters
local c = {}

--- The CPUs or threads that have counts in this interval, each with its `n`:
--- `for cpu, n in c:each() do … n(ev) … end`. For `m.interval`, which gets the interval's length
--- for rates. With false there is one turn, for all of them together.
---@param apart? boolean mostly `opt.perins`; Dflt: true
---@return fun(): integer|"all", fun(ev: perilune.Evsel): number, number
function c:each(apart) end

--- Any other table, made in `m.interval`, a value for each column in a row:
---
---     return report("waiting", { { "thread", comm }, { "ms", width = 8, decimals = 3 } }, { { 4242, 1.5 } })
---@param title string|false
---@param columns perilune.Column[]
---@param rows (number|string)[][]
---@param name? string the key `table` of its JSON rows; Dflt: made from the title
---@return perilune.Report
function report(title, columns, rows, name) end

---@class perilune.Report
