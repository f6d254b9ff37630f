---@meta
--- What a monitor can be asked for: an option is data, and gives parsing, --help, validation and completion.
error "this file describes the API to editors and checkers; it cannot be required"

--- The name, and what every kind of option takes.
---@class perilune.OptionSpec
---@field [1] string the long name: `"than"` is --than; `opt.than`, with `_` for `-`
---@field short? string one letter
---@field help? string a line without a stop
---@field value? string what --help calls the value: `"GLOB"`
---@field default? any as the user would type it
---@field required? boolean
---@field positional? boolean taken without its name

---@class perilune.DurationSpec: perilune.OptionSpec
---@field unit "s"|"ms"|"us"|"ns" of a number without a suffix

---@class perilune.ChoiceSpec: perilune.OptionSpec
---@field of string[]

---@class perilune.EventsSpec: perilune.OptionSpec
---@field groups? 1|"2.." how many times the option may be given
---@field attrs? table<string, function> the attributes of a selector, each `expr`, `text` or `flag`

--- A declared option.
---@class perilune.Option

--- An option that several monitors have: its name stands in `options` by itself, `options = { "call-graph", "flame-graph", … }`.
--- The host's own (-C -p -i -m --json --stack-style --lines …) every monitor has; they are not declared.
---@alias perilune.SharedOption
---| "call-graph" # -g: stacks, for the `stack` of an evsel
---| "flame-graph" # --flame-graph NAME: stacks of tables and of `emit` are drawn instead of shown, by the host; implies -g. --diff and --heatmap come with it
---| "diff" # --diff OLD: the flame graph against an older one
---| "heatmap" # --heatmap FILE: what `heat_map` was given; of a monitor without one, when the events came
---| "perins" # --perins: a table per instance; see `perins()`
---| "freq" # -F, samples a second; 100 when not given. A monitor with `-e` always has -F and -c, for clocks and hardware events
---| "period" # -c, events a sample
---| "detail" # --detail[=-1ms,+500us,samecpu]: with --than, all that happened in between and around; for `history`
---| "guest" # -G: guests only
---| "exclude-user" # --exclude-user
---| "exclude-kernel" # --exclude-kernel
---| "exclude-guest" # --exclude-guest

--- What the user asked for, by long name with `_` for `-`. What was not given is its default; a flag is false,
--- never nil, and so is a shared option that is off.
---@class perilune.Options
---@field call_graph false|string of -g: `"fp"`, `"dwarf"`, `"dwarf,16384"`, `"lbr"`; for the `stack` of an evsel
---@field flame_graph false|string NAME of --flame-graph
---@field diff false|string OLD of --diff
---@field heatmap false|string FILE of --heatmap
---@field freq? integer of -F, samples a second
---@field period? integer of -c, events a sample
---@field perins boolean of --perins
---@field detail false|perilune.Detail of --detail
---@field exclude_user boolean
---@field exclude_kernel boolean
---@field exclude_guest boolean
---@field guest boolean
---@field [string] any

--- What --detail asks for: for `h:between`.
---@class perilune.Detail
---@field before number nanoseconds before the beginning; 0 when not given
---@field after number nanoseconds behind the end; 0 when not given
---@field samecpu boolean only events on the CPU of the beginning or of the end; and likewise
---@field samepid boolean
---@field sametid boolean
---@field samekey boolean

---@class perilune.FlagSpec: perilune.OptionSpec
---@field load? "split-locks" a command of perilune that a given flag starts and watches as COMMAND

--- On or off: `flag { "only-comm", help = "one row a name" }`.
---@param spec perilune.FlagSpec
---@return perilune.Option
function flag(spec) end

--- A number: `number { "limit", default = 20000, help = "expiries a second" }`.
---@param spec perilune.OptionSpec
---@return perilune.Option
function number(spec) end

--- A share of 100, as a number: `percent { "than", default = 20 }` takes `20` and `20%`. As a word, a share as text.
---@param spec perilune.OptionSpec
---@return perilune.Option
---@overload fun(value: number|string): string
function percent(spec) end

--- A time in nanoseconds: `duration { "than", unit = "us" }` takes `10`, `10us` and `1.5ms`. As a word, a time as text.
---@param spec perilune.DurationSpec
---@return perilune.Option
---@overload fun(value: number|string): string
function duration(spec) end

--- Bytes: `size { "memory" }` takes `4096`, `64K` and `2GB`.
---@param spec perilune.OptionSpec
---@return perilune.Option
function size(spec) end

--- Any text: `text { "filter", value = "GLOB" }`.
---@param spec perilune.OptionSpec
---@return perilune.Option
function text(spec) end

--- One of a few words: `choice { "impl", of = { "delay", "pair" }, default = "delay" }`.
---@param spec perilune.ChoiceSpec
---@return perilune.Option
function choice(spec) end

--- An expression over an event's fields: `expr { "key", short = "k" }`. `opt.key` is its text, for `expr_of`.
---@param spec perilune.OptionSpec
---@return perilune.Option
function expr(spec) end

--- One event selector: `event { "alloc", required = true }`. `opt.alloc` is a [perilune.Selector].
---@param spec perilune.EventsSpec
---@return perilune.Option
function event(spec) end

--- Event selectors, a comma list each time the option is given: `events { "event", short = "e" }`.
--- `opt.event[group][i]` is a [perilune.Selector].
---@param spec perilune.EventsSpec
---@return perilune.Option
function events(spec) end
