---@meta
--- The words of a prompt, `perilune repl`, beside those of scripts. A line that begins with a colon is a call:
--- `:doc latency`, `:events sched:*` (the tracepoints that match), `:fields sched:sched_switch`, `:cost`, `:save NAME`.
error "this file describes the API to editors and checkers; it cannot be required"

--- Opens an event, which comes from now on, also while lines are typed; in a script the same as `evsel`, which at a
--- prompt comes only while `run` runs. Without a handler it is printed.
---
---     by = kv { "comm" }
---     p = probe("sched:sched_switch", function(e) by:add(e.prev_comm) end)
---     p:filter "prev_pid > 0"
---@param selector string|perilune.Selector
---@param spec? perilune.EvselSpec
---@param handler? fun(e: perilune.Record)
---@return perilune.Evsel ev
---@overload fun(selector: string|perilune.Selector, handler: fun(e: perilune.Record)): perilune.Evsel
function probe(selector, spec, handler) end

--- Lets the events declared with `evsel` come for a time (`run "2s"`), for so many events (`run(100)`), or until Ctrl-C (`run()`).
--- Of a recording it plays as much. With the name of a monitor and its options it starts that: `run("task-state", { than = "10ms" })`.
---@param what? string|number
---@param options? table
function run(what, options) end

--- Prints the next events, 10 of them: `show("signal:signal_generate/sig==9/", { n = 1, stack = true })`.
---@param selector string
---@param options? perilune.ShowSpec
function show(selector, options) end

---@class perilune.ShowSpec: perilune.EvselSpec
---@field n? integer so many; Dflt: 10
---@field time? string not longer than this: `"2s"`

--- Counts events by an expression over their fields, for a second or that long: `count("raw_syscalls:sys_enter", "syscall_name(id)", "5s")`.
---@param selector string
---@param key? string
---@param time? string
---@return perilune.Kv
function count(selector, key, time) end

--- Counts events by CPU, for a second or that long: `stat("context-switches,page-faults", "5s")`.
---@param list string
---@param time? string
function stat(list, time) end

--- The fields of an event, with their types.
---@param selector string
---@return string
function fields(selector) end

--- Draws the first rows of a table, 10 of them. The table alone, as a line, draws all of it.
---@param table perilune.Kv|perilune.Latency
---@param n? integer
function top(table, n) end

--- Takes every event, timer and monitor away; with a table, begins that anew.
---@param table? any
function clear(table) end

--- The monitors that `run` started.
---@return string
function jobs() end

--- What each event has cost so far, in nanoseconds: the kernel's part and our own; and which lines LuaJIT cannot compile.
---@return string
function cost() end

--- What was seen and missed so far.
---@return string
function lost() end

--- Writes what was defined as a monitor that runs as it is: `:save switches` writes switches.lua.
--- Repeat the line to write a file outside the current folder. System folders are refused.
---@param name string
---@return string
function save(name) end

--- What is written about a word.
---@param word string
---@return string
function doc(word) end
