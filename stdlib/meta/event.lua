---@meta
--- The events that a monitor watches.
error "this file describes the API to editors and checkers; it cannot be required"

--- How to open an event; besides these, any field of perf_event_attr by its kernel name.
---@class perilune.EvselSpec
---@field stack? any take call chains, unless false or nil: `stack = opt.call_graph`
---@field count? boolean count only, for `counters`; no handler
---@field freq? number samples a second
---@field period? number one sample each so many events, or nanoseconds of a clock
---@field filter? string a kernel filter, ANDed to the selector's
---@field exclude? { user?: boolean, kernel?: boolean, guest?: boolean, host?: boolean } what is left out
---@field max_stack? integer frames of a call chain at most
---@field cpus? string on these CPUs only: `"0-3,8"`
---@field optional? boolean an event that this kernel has not gives nil instead of an error
---@field title? string of its column

--- A selector as the user typed it: `sys:name/filter/ATTR/…/`.
---@class perilune.Selector
---@field name string `"sched:sched_switch"`
---@field filter? string the kernel filter between the first slashes
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
---@param selector string|perilune.Selector
---@param spec? perilune.EvselSpec
---@param handler? fun(e: perilune.Record)
---@return perilune.Evsel ev nil only if `optional` and absent
---@overload fun(selector: string|perilune.Selector, handler: fun(e: perilune.Record)): perilune.Evsel
function evsel(selector, spec, handler) end

--- A declared event.
---@class perilune.Evsel
---@field name string `"sched:sched_switch"`
---@field id integer its number in this run, for `event_name` columns
---@field title string its title in tables
---@field fields table<string, string> its records' fields by name, each with the C type that the kernel gives it
---@field attr table<string, number> perf_event_attr as it will be opened
local ev = {}

--- Gives the event its handler: `ev:each(function(e) … end)`.
---@param handler fun(e: perilune.Record)
---@return perilune.Evsel self
function ev:each(handler) end

--- Narrows it in the kernel; calls are ANDed. With further arguments `%s` is one of them, quoted for the kernel, and
--- `%d` a whole number; without, the text is taken as it is.
---
---     generate:filter("comm ~ %s && sig == %d", opt.name, 9)
---     generate:filter(opt.filter)
---@param format string
---@param ... string|number
---@return perilune.Evsel self
function ev:filter(format, ...) end

--- Narrows it in the kernel to those whose field matches one of the globs: `generate:matching("comm", "nginx*,java")`.
---@param field string
---@param globs string separated by commas
---@return perilune.Evsel self
function ev:matching(field, globs) end

--- Switches it on, from a handler or a timer: `detail:on()`.
function ev:on() end

--- Switches it off; its records stop, its ring stays: `detail:off()`.
function ev:off() end

--- Compiles a field's name or a number, as typed in an option, into a function of the record. A name that the event
--- has not is an error now.
---
---     local key = expr_of(opt.key, ev)
---     ev:each(function(e) seen:add(key(e)) end)
---@param source string
---@param ev perilune.Evsel whose fields it names
---@return fun(e: perilune.Record): number|string
function expr_of(source, ev) end

--- Compiles several into one function that returns as many values: `exprs_of({ "bytes_req", "1" }, ev)`.
---@param sources string[]
---@param ev perilune.Evsel
---@return fun(e: perilune.Record): ...
function exprs_of(sources, ev) end
