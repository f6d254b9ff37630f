---@meta
--- Events of a monitor, and expressions over their fields.
error "this file describes the API to editors and checkers; it cannot be required"

--- How to open an event. Some fields of perf_event_attr may be added, by their kernel names:
--- `wakeup_events pinned exclusive precise_ip branch_sample_type sample_max_stack
--- exclude_callchain_kernel exclude_callchain_user`. With `wakeup_events = 1` the event is handled
--- within a few milliseconds, at the cost of a wakeup. Any other field is refused with what to
--- write instead, and so is one that has no effect on the event, such as `sample_max_stack` without
--- `stack`. `pinned = true` has an effect on hardware events only, and is accepted for others.
---@class perilune.EvselSpec
---@field stack? any record call chains, unless false or nil: `stack = opt.call_graph`
---@field group? string events of a group are counted at the same times: their ratio is exact
---@field cgroup? string count only tasks of this cgroup: `"system.slice/nginx.service"`
---@field fields? string fields of samples to record although no handler names them: `"_cgroup"`
---@field functions? boolean track mapped files: `e._function` has a name without call chains, too
---@field count? boolean count only, for `counters`; no handler
---@field freq? number|false samples per second; clocks and hardware events: -F or -c, else 100
---@field period? number|false events per sample; for a clock nanoseconds, at least 10000
---@field filter? string|false a filter, ANDed to the selector's; see `ev:filter`
---@field exclude? perilune.Exclude modes that are not counted or sampled
---@field task? string the field with the thread that the event is about, if not the current thread
---@field all_tasks? boolean all tasks and CPUs, also those that -C, -p or a COMMAND does not select
--- Functions have the registers of their calls instead of their parameters, also of those in a
--- list: many functions of a file, or of the kernel, then share one BPF link.
---@field registers? boolean
---@field hide_self? boolean omit perilune's own events, scheduler events included
---@field max_stack? integer maximum number of frames of a call chain
---@field cpus? string only these CPUs: `"0-3,8"`
---@field optional? boolean return nil instead of an error if the kernel does not have the event
---@field title? string title of its column

---@class perilune.Exclude
---@field user? boolean
---@field kernel? boolean
---@field guest? boolean
---@field host? boolean
---@field idle? boolean for clocks of the kernel; a hardware counter stops while its CPU is idle

--- A selector as typed by the user: `sys:name/filter/ATTR/…/`, for calls of a function
--- `kprobe:FUNCTION/…` or `uprobe:FILE:FUNCTION/…`, for its returns `kretprobe:` or `uretprobe:`,
--- for USDT probes `usdt:FILE:PROVIDER:NAME/…`, for tracepoints with the members of their arguments
--- `tprobe:TRACEPOINT/…`, for functions by ftrace `fprobe:FUNCTION/…` and `fretprobe:FUNCTION/…`,
--- for accesses to memory `mem:SYMBOL/LEN:w/ATTR/…` or `mem:FILE:SYMBOL:w/ATTR/…`.
---@class perilune.Selector
---@field name string `"sched:sched_switch"`
---@field filter? string the filter between the first slashes
---@field stack boolean whether it has the attribute `stack`
---@field options string options of the monitor that `name` is; empty for an event
---@field group? string text of the group in braces that contains it
---@field weak? boolean whether that group has the modifier `W`
---@field attr perilune.SelectorAttrs

--- By name, the text of an attribute: `s.attr.key`. As a list, {name, value} in the order typed,
--- with `_` for `-`.
---@class perilune.SelectorAttrs
---@field [string] string
---@field [integer] { [1]: string, [2]: string }

--- Declares an event. A handler that is passed here gets the records instead of `m.sample`. `"a|b"`
--- is the first of the events that exists. `"{a,b}"` is a group of the kernel, with an evsel for
--- each event: they are counted at the same times, and switching the first one off stops all. Of
--- `"{a,b}:S"` only the first event is sampled; its records have the counts of all in `e._counts`.
---
---     local faults, switches = evsel("{page-faults,context-switches}", { count = true })
---     evsel("{cpu-clock,page-faults}:S", function(e) faults:add(e._counts["page-faults"]) end)
---     evsel("sched:sched_wakeup", function(e) waking:add(e.comm) end)
---     local switches = evsel("context-switches", { count = true, title = "switches" })
---
--- `stack`: true uses the method of --call-graph, text is a method: `"fp"`, `"dwarf,16384"`,
--- `"lbr"`. `task`: the event is opened on whole CPUs, and with -p kept if the thread in that field
--- is watched. The argument of a handler has the type of its event if `perilune types` has written
--- the types of this kernel.
---@class perilune.EvselFunction
---@overload fun(selector: perilune.Selector, handler: fun(e: perilune.Record)): perilune.Evsel
---@overload fun(selector: perilune.Selector, spec: perilune.EvselSpec, handler?: fun(e: perilune.Record)): perilune.Evsel
---@overload fun<K: string>(selector: K, handler?: fun(e: perilune.Records[K])): perilune.Evsel
---@overload fun<K: string>(selector: K, spec: perilune.EvselSpec, handler?: fun(e: perilune.Records[K])): perilune.Evsel
local evsel_word = {}

--- Declares the events that a monitor emits, as the selector `"profile/-F 200/"` does. They are the
--- monitor's own events after its filters and thresholds, with the columns that its `emits`
--- declares. `_time` is the time of the event that the monitor was handling, `_pid`, `_tid`, `_cpu`
--- and the stack are those of the first event that it passed to `emit`.
---
---     evsel.from("profile", { freq = 200, than = 50 }, function(e) busy:add(e.function_) end)
---     evsel.from("task-state", { uninterruptible = true, call_graph = "fp" })
---@param name string a monitor with `emits`; `perilune list` shows them
---@param options? table<string, any> its options by their names in `opt`; durations in ns
---@param handler? fun(e: perilune.Record)
---@return perilune.Evsel
function evsel_word.from(name, options, handler) end

---@type perilune.EvselFunction
evsel = nil

--- The types of records, by the name of the event.
---@class perilune.Records
---@field [string] perilune.Record

--- A declared event.
---@class perilune.Evsel
---@field name string `"sched:sched_switch"`
---@field names string[] the events that it stands for: those of a glob, or the boxes of a PMU
---@field id integer its number in this run, for `event_name` columns
---@field title string its title in tables
---@field fields table<string, string> C types of the fields of its records, by name
---@field freq number|false samples per second; false if every event or every `period` is sampled
---@field period number|false events per sample, or nanoseconds of a clock
---@field unit string|false unit of its counts, such as `"Joules"`; false if they are occurrences
---@field attr table<string, string|true> attributes of its selector, by name
local ev = {}

--- Sets the handler of the event: `ev:each(function(e) … end)`.
---@param handler fun(e: perilune.Record)
---@return perilune.Evsel self
function ev:each(handler) end

--- Sets a filter; the filters of several calls are ANDed. The conditions joined by `&&` that are in
--- the kernel's filter language are checked by the kernel (in-kernel filter), which is cheapest by
--- far. Any other condition is a C expression that perilune checks before the handler (user-space
--- filter); `-v` prints both. With further arguments `%s` is one of them, quoted, and `%d` an
--- integer; without arguments the text is not changed.
---
--- `field.function == NAME` compares the function that an address belongs to. Text is compared with
--- the string that a pointer argument of a system call points to: `filename ~ "*.conf"`. The kernel
--- reads it from user memory at the entry of the call, so a page that is not resident does not
--- match any text.
---
--- `e.filename` is that string where the record contains it, else the address: since Linux 6.19,
--- which truncates it after 63 bytes, and before with the rights to load a BPF program (root, or
--- CAP_BPF and CAP_PERFMON), which reads up to 4095 bytes; a string that is not in memory is
--- `(fault)`. The program compares numbers; perilune checks conditions on text itself.
---
---     generate:filter("comm ~ %s && sig == %d", opt.name, 9)
---     generate:filter("sig == 9 && comm_get(pid) != comm")
---     generate:filter(opt.filter)
---@param format string
---@param ... string|number
---@return perilune.Evsel self
function ev:filter(format, ...) end

--- Sets an in-kernel filter: the field must match one of a list of names and globs, and none of
--- those after a `!`: `generate:matching("comm", "nginx,java*,!java-debug")`.
---@param field string
---@param list string names separated by commas; `\\,` is a comma in a name
---@return perilune.Evsel self
function ev:matching(field, list) end

--- Enables the event, from a handler or a timer: `detail:on()`.
function ev:on() end

--- Disables the event; its ring stays allocated: `detail:off()`.
function ev:off() end

--- Replaces the handler, at a prompt also while the event runs. Collected data is kept.
---@param handler fun(e: perilune.Record)
---@return perilune.Evsel ev itself
function ev:replace(handler) end

--- Compiles a C expression, as typed in an option, into a function of the record:
--- `(__cpu << 32) | vec`, `runtime / 1000`, `prev_comm ~ "kworker*"`, `ksymbol(location)`. A
--- mistake in it is an error at once, not at the first event.
---
---     local key = expr_of(opt.key, ev)
---     ev:each(function(e) seen:add(key(e)) end)
---
--- Names: the event's fields, `field[i]`, `_cpu _pid _tid _time _comm _period _ip _addr`,
--- `_cgroup _container _weight …` (see perilune.Sample), and `__cpu __pid` (`__pid` is the thread).
--- Operators: those of C except assignment, with its precedence and integer types, exact in 64
--- bits; for text `==`, `!=` and `~ "glob"`. Functions:
--- `printf ksymbol comm_get syscall_name exit_reason_str ntohl ntohs htonl htons strncmp`, and with
--- `--unsafe` `system`. Never put text of an event into the command of `system`: a task can choose
--- any name.
---
--- The result is a number if a double represents it exactly as a signed 64-bit integer, else its
--- hexadecimal text, so that keys never collide. Such a text is added to the sums of a `kv`
--- exactly, and elsewhere as the nearest double. A division by zero, a shift by the width or more,
--- and an element outside its array give 0, and are counted as `undefined` in the coverage.
---
--- The second result is the type of the value: "signed", "unsigned", "pointer", "text", or "mixed"
--- if the events of a glob differ. A kernel address is a negative number, which needs no string per
--- event. Pass the type as the `as` of a key column to print 0xffffffff81000000 instead of
--- -2130706432:
---
---     local key, as = expr_of(opt.key, ev)
---     local seen = kv { { "key", as = as } }
---
--- With `"key"` instead of an evsel the expression formats a key: its argument is the result of
--- another expression, and the only name is `key`, a `long`.
---
---     local shown = expr_of('printf("%03d %d", key >> 32, (int)key)', "key")
---@param source string
---@param of perilune.Evsel|"key" the event whose fields it uses
---@param kind? "number"|"text" required type of the result; another type is an error
---@param mixed? boolean for `as = "mixed"`: integers that no double holds are signed hex text
---@return fun(e: perilune.Sample|number|string): number|string
---@return "signed"|"unsigned"|"pointer"|"mixed"|"text" as
---@overload fun(source: string, of: perilune.Evsel, kind: "text"): fun(e: perilune.Sample|number|string): string
function expr_of(source, of, kind, mixed) end

--- Compiles several expressions into one function that returns a value for each:
--- `exprs_of({ "bytes_req", "1" }, ev)`.
---@param sources string[]
---@param of perilune.Evsel|"key"
---@param kind? "number"|"text" required type of each result
---@return fun(e: perilune.Sample|number|string): ...
---@return string[] as the type of each value; see `expr_of`
function exprs_of(sources, of, kind) end
