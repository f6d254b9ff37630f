---@meta
--- The events that a monitor watches.
error "this file describes the API to editors and checkers; it cannot be required"

--- How to open an event; besides these, any field of perf_event_attr by its kernel name.
---@class perilune.EvselSpec
---@field stack? any take call chains, unless false or nil: `stack = opt.call_graph`. `true` walks as --call-graph says; text is a way to walk: `"fp"`, `"dwarf,16384"`, `"lbr"`
---@field group? string counters of one name count at the same times, so their ratio is exact
---@field cgroup? string count only tasks of this cgroup: `"system.slice/nginx.service"`
---@field functions? boolean follow what processes map, so that `e._function` has a name without call chains, too
---@field count? boolean count only, for `counters`; no handler
---@field freq? number|false samples per second; default of clocks and hardware events: -F or -c, else 100
---@field period? number|false events per sample; for a clock, nanoseconds per sample, at least 10000
---@field filter? string|false a filter, ANDed to the selector's; see `ev:filter`
---@field exclude? { user?: boolean, kernel?: boolean, guest?: boolean, host?: boolean, idle?: boolean } what is left out; idle: of the kernel's clocks, a hardware counter stops in an idle CPU
---@field task? string the field with the thread that the event is about, where that is another than the one it comes from: it is opened for whole CPUs, and with -p kept when that thread is watched
---@field everyone? boolean also of tasks that are not watched: it is opened for all CPUs, and -C, -p and a command leave nothing of it out
---@field hide_self? boolean omit perilune's own events, scheduler events included
---@field max_stack? integer frames of a call chain at most, where chains are taken
---@field cpus? string on these CPUs only: `"0-3,8"`
---@field optional? boolean an event that this kernel has not gives nil instead of an error
---@field title? string of its column

--- A selector as the user typed it: `sys:name/filter/ATTR/…/`, or for a function `kprobe:FUNCTION/…`, `uprobe:FILE:FUNCTION/…`, and
--- `kretprobe:`, `uretprobe:` for its returns.
---@class perilune.Selector
---@field name string `"sched:sched_switch"`
---@field filter? string the filter between the first slashes
---@field stack boolean whether it has the attribute `stack`
---@field attr perilune.SelectorAttrs

--- By name, the text of an attribute: `s.attr.key`. As a list, {name, value} in the order typed, `_` for `-`.
---@class perilune.SelectorAttrs
---@field [string] string
---@field [integer] { [1]: string, [2]: string }

--- Declares an event. A handler given here takes its records instead of `m.sample`. `"a|b"` is the first that exists.
---
---     evsel("sched:sched_wakeup", function(e) waking:add(e.comm) end)
---     local switches = evsel("context-switches", { count = true, title = "switches" })
--- A handler's argument has the type of its event where `perilune types` has described this kernel's.
---@class perilune.EvselWord
---@overload fun(selector: perilune.Selector, handler: fun(e: perilune.Record)): perilune.Evsel
---@overload fun(selector: perilune.Selector, spec: perilune.EvselSpec, handler?: fun(e: perilune.Record)): perilune.Evsel
---@overload fun<K: string>(selector: K, handler?: fun(e: perilune.Records[K])): perilune.Evsel
---@overload fun<K: string>(selector: K, spec: perilune.EvselSpec, handler?: fun(e: perilune.Records[K])): perilune.Evsel

---@type perilune.EvselWord
evsel = nil

--- The type of an event's records, by its name.
---@class perilune.Records
---@field [string] perilune.Record

--- A declared event.
---@class perilune.Evsel
---@field name string `"sched:sched_switch"`
---@field id integer its number in this run, for `event_name` columns
---@field title string its title in tables
---@field fields table<string, string> its records' fields by name, each with the C type that the kernel gives it
---@field freq number|false requested samples per second; false if every event or every `period` is sampled
---@field period number|false events per sample, or nanoseconds of a clock
---@field attr table<string, number> perf_event_attr as it will be opened
local ev = {}

--- Gives the event its handler: `ev:each(function(e) … end)`.
---@param handler fun(e: perilune.Record)
---@return perilune.Evsel self
function ev:each(handler) end

--- Narrows it; calls are ANDed. Of conditions joined by `&&`, those in the kernel's filter language are checked by the kernel,
--- which is cheapest by far; any other is a C expression, checked here before the handler (`-v` says which went where). With
--- further arguments `%s` is one of them, quoted, and `%d` a whole number; without, the text is taken as it is.
---
--- `field.function == NAME` compares the function that an address belongs to. Text is compared with
--- the string that a pointer argument of a system call points to: `filename ~ "*.conf"`. The kernel
--- reads it from user memory at the entry of the call, so a page that is not resident matches no
--- text. Since Linux 6.19 records also contain the string as `__filename_val`, cut to 63 bytes;
--- `e.filename` is still the address.
---
---     generate:filter("comm ~ %s && sig == %d", opt.name, 9)
---     generate:filter("sig == 9 && comm_get(pid) != comm")
---     generate:filter(opt.filter)
---@param format string
---@param ... string|number
---@return perilune.Evsel self
function ev:filter(format, ...) end

--- Narrows it, in the kernel, to those whose field is one of a list of names and globs, and none of those behind a `!`:
--- `generate:matching("comm", "nginx,java*,!java-debug")`.
---@param field string
---@param list string separated by commas; `\\,` is a comma in a name
---@return perilune.Evsel self
function ev:matching(field, list) end

--- Switches it on, from a handler or a timer: `detail:on()`.
function ev:on() end

--- Switches it off; its records stop, its ring stays: `detail:off()`.
function ev:off() end

--- Handles the event with another function from now on, at a prompt also while it comes; what was collected stays.
---@param handler fun(e: perilune.Record)
---@return perilune.Evsel ev itself
function ev:replace(handler) end

--- Compiles an expression of C, as typed in an option, into a function of the record: `(__cpu << 32) | vec`,
--- `runtime / 1000`, `prev_comm ~ "kworker*"`, `ksymbol(location)`. What is wrong with it is an error now, not at
--- the first event.
---
---     local key = expr_of(opt.key, ev)
---     ev:each(function(e) seen:add(key(e)) end)
---
--- It names the event's fields, `field[i]`, `_cpu _pid _tid _time _comm _period _ip _addr`, and `__cpu __pid` (`__pid` is
--- the thread). Operators are C's but for assignment, with its precedence and integer types, exact in 64 bits; text
--- has `==`, `!=` and `~ "glob"`. Functions: `printf ksymbol comm_get syscall_name exit_reason_str ntohl ntohs htonl
--- htons strncmp`, and with `--unsafe` `system`, into whose command no text of an event
--- belongs: a task may call itself anything.
---
--- The result is a number where a double holds it exactly as a signed 64-bit integer, else its hexadecimal text: keys
--- never collide. Such a text adds to the sums of a `kv` exactly, and elsewhere as the nearest double. A division by zero, a shift by the width or more, an
--- element outside its array give 0, and are counted as `undefined` in the coverage.
---
--- The second result is the type of the value: "signed", "unsigned", "pointer", "text", or "mixed"
--- if the events of a glob differ. A kernel address is a negative number, which needs no string per
--- event. Pass the type as the `as` of a key column to print 0xffffffff81000000 instead of
--- -2130706432:
---
---     local key, as = expr_of(opt.key, ev)
---     local seen = kv { { "key", as = as } }
---
--- With `"key"` instead of an evsel it is an expression of a key: a function of what such a function gave, in which the only
--- name is `key`, a `long`.
---
---     local shown = expr_of('printf("%03d %d", key >> 32, (int)key)', "key")
---@param source string
---@param of perilune.Evsel|"key" whose fields it names
---@param kind? "number"|"text" what it has to give; another is an error now
---@param mixed? boolean for a column with `as = "mixed"`: integers that no double holds are signed hexadecimal text
---@return fun(e: perilune.Sample|number|string): number|string
---@return "signed"|"unsigned"|"pointer"|"mixed"|"text" as
---@overload fun(source: string, of: perilune.Evsel, kind: "text"): fun(e: perilune.Sample|number|string): string
function expr_of(source, of, kind, mixed) end

--- Compiles several into one function that returns as many values: `exprs_of({ "bytes_req", "1" }, ev)`.
---@param sources string[]
---@param of perilune.Evsel|"key"
---@param kind? "number"|"text" what each has to give
---@return fun(e: perilune.Sample|number|string): ...
---@return string[] as the type of each value; see `expr_of`
function exprs_of(sources, of, kind) end
