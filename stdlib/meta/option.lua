---@meta
--- Options of a monitor. An option is data; parsing, --help, validation and completion follow from
--- it.
error "this file describes the API to editors and checkers; it cannot be required"

--- Fields of every kind of option.
---@class perilune.OptionSpec
---@field [1] string the long name: `"than"` is --than and `opt.than`, with `_` for `-`
---@field short? string one letter
---@field help? string a line without a full stop
---@field value? string name of the value in --help: `"GLOB"`
---@field default? any as typed on the command line
---@field required? boolean
---@field positional? boolean an argument without the option name

---@class perilune.DurationSpec: perilune.OptionSpec
---@field unit "s"|"ms"|"us"|"ns" unit of a number without a suffix
---@field least? string the shortest duration that is accepted: `"10us"`; Dflt: 0

---@class perilune.IntegerSpec: perilune.OptionSpec
---@field least? integer minimum; Dflt: 1

---@class perilune.ChoiceSpec: perilune.OptionSpec
---@field of string[]

---@class perilune.EventsSpec: perilune.OptionSpec
---@field groups? 1|"2.." how many times the option may be given
---@field attrs? table<string, function> the attributes of a selector, each `expr`, `text` or `flag`

--- A declared option.
---@class perilune.Option

--- An option that several monitors have. `options` contains its name: `options = { "call-graph",
--- "flame-graph", … }`. "flame-graph" draws the stacks of tables and of `emit` instead of printing
--- them, implies -g, and includes --pprof, --firefox, --otlp-profiles, --diff and --heatmap.
--- Monitors with `-e` always have -F and -c, for clocks and hardware events. Common options (-C -p
--- -i -m --json --stack-style --lines …) are not declared: every monitor has them.
---@alias perilune.SharedOption
---| "call-graph" # -g: stacks, for the `stack` of an evsel
---| "flame-graph" # --flame-graph NAME: draw stacks as a flame graph
---| "flame-graph-over-time" # the same of a monitor with a `stack_map`, for --heatmap FILE.html
---| "pprof" # --pprof FILE: the stacks as a profile for pprof
---| "firefox" # --firefox FILE: the stacks as a profile for the Firefox Profiler
---| "otlp-profiles" # --otlp-profiles: with --otlp, the stacks of each interval as profiles
---| "diff" # --diff OLD: the difference to an older flame graph
---| "perfetto" # --perfetto FILE: a timeline of the events, and of what `span` adds
---| "database" # --database FILE: the events of the first `sql`, in a SQLite database
---| "heatmap" # --heatmap FILE: the delays of `heat_map`, without it the times of the events
---| "perins" # --perins: a table per instance; see `perins()`
---| "freq" # -F: samples per second; Dflt: 100
---| "period" # -c: events per sample
---| "detail" # --detail[=-1ms,+500us,samecpu]: with --than, all events in between; for `history`
---| "filter" # --filter GLOBS: tasks by name, for `ev:matching`
---| "device" # --device NAMES: disks, for the module `block`
---| "interruptible" # -S: only interruptible sleep
---| "uninterruptible" # -D: only uninterruptible sleep
---| "weight" # --weight count|time: of the flame graph
---| "guest" # -G: guests only
---| "exclude-user" # --exclude-user
---| "exclude-kernel" # --exclude-kernel
---| "exclude-guest" # --exclude-guest

--- Options of the command line, by long name with `_` for `-`. An option that was not given has its
--- default. A flag and a shared option that are off are false, never nil.
---@class perilune.Options
---@field is_source? boolean whether another monitor takes the events that this one emits
---@field call_graph false|string of -g: `"fp"`, `"dwarf,16384"`, `"lbr"`, …; for an evsel's `stack`
---@field flame_graph false|string NAME of --flame-graph; not false with --pprof and --firefox
---@field pprof false|string FILE of --pprof
---@field firefox false|string FILE of --firefox
---@field otlp_profiles boolean whether --otlp-profiles was given
---@field diff false|string OLD of --diff
---@field heatmap false|string FILE of --heatmap
---@field perfetto false|string FILE of --perfetto
---@field database false|string FILE of --database
---@field freq? integer samples per second, of -F
---@field period? integer events per sample, of -c
---@field perins boolean whether --perins was given
---@field detail false|perilune.Detail value of --detail
--- Set if another monitor takes its events: emit each, report nothing. A duration `than` that is
--- not given is -1 then.
---@field as_events? true
---@field filter false|string GLOBS of --filter
---@field device false|string NAME of --device
---@field weight false|"count"|"time" of --weight
---@field interruptible boolean
---@field uninterruptible boolean
---@field exclude_user boolean
---@field exclude_kernel boolean
---@field exclude_guest boolean
---@field guest boolean
---@field [string] any

--- The value of --detail, for `h:between`.
---@class perilune.Detail
---@field before number nanoseconds before the beginning; Dflt: 0
---@field after number nanoseconds after the end; Dflt: 0
---@field samecpu boolean only events on the CPU of the beginning or of the end; the others likewise
---@field samepid boolean
---@field sametid boolean
---@field samekey boolean

---@class perilune.FlagSpec: perilune.OptionSpec
---@field load? "split-locks" a perilune command that the flag starts and watches as COMMAND

--- On or off: `flag { "only-comm", help = "one row a name" }`.
---@param spec perilune.FlagSpec
---@return perilune.Option
function flag(spec) end

--- A number: `number { "limit", default = 20000, help = "expiries a second" }`.
---@param spec perilune.OptionSpec
---@return perilune.Option
function number(spec) end

--- A whole number of at least 1, or `least`: `integer { "rows", default = 20 }`.
---@param spec perilune.IntegerSpec
---@return perilune.Option
function integer(spec) end

--- A port of TCP or UDP, 1 to 65535: `port { "port" }`.
---@param spec perilune.OptionSpec
---@return perilune.Option
function port(spec) end

--- A percentage: `percent { "than", default = 20 }` accepts `20` and `20%`. With a number, returns
--- the percentage as text.
---@param spec perilune.OptionSpec
---@return perilune.Option
---@overload fun(value: number|string): string
function percent(spec) end

--- A time in nanoseconds: `duration { "than", unit = "us" }` accepts `10`, `10us` and `1.5ms`. With
--- a number, returns the time as text.
---@param spec perilune.DurationSpec
---@return perilune.Option
---@overload fun(value: number|string): string
function duration(spec) end

--- A number of bytes: `size { "memory" }` accepts `4096`, `64K` and `2GiB`.
---@param spec perilune.OptionSpec
---@return perilune.Option
function size(spec) end

--- Any text: `text { "filter", value = "GLOB" }`.
---@param spec perilune.OptionSpec
---@return perilune.Option
function text(spec) end

--- The text of a file, at most 1 MiB of UTF-8: `text_file { "script", value = "FILE" }`. `opt` has
--- the text.
---@param spec perilune.OptionSpec
---@return perilune.Option
function text_file(spec) end

--- One of a list of values: `choice { "impl", of = { "delay", "pair" }, default = "delay" }`.
---@param spec perilune.ChoiceSpec
---@return perilune.Option
function choice(spec) end

--- An expression over an event's fields: `expr { "key", short = "k" }`. `opt.key` is its text, for
--- `expr_of`. At a prompt with text, returns the value and type of an expression on constants,
--- `expr "(1 << 12) - 1"`, or its type for the fields of an event:
--- `expr("prev_state & 0xff", "sched:sched_switch")`.
---@param spec perilune.OptionSpec
---@return perilune.Option
---@overload fun(source: string, selector?: string): string
function expr(spec) end

--- One event selector: `event { "alloc", required = true }`. `opt.alloc` is a [perilune.Selector].
---@param spec perilune.EventsSpec
---@return perilune.Option
function event(spec) end

--- Event selectors, a comma-separated list each time the option is given:
--- `events { "event", short = "e" }`. `opt.event[group][i]` is a [perilune.Selector].
---@param spec perilune.EventsSpec
---@return perilune.Option
function events(spec) end
