---@meta
--- Functions of the prompt, `perilune repl`, in addition to those of scripts. A line that begins
--- with a colon is a call: `:doc latency`, `:events sched:*` (the tracepoints that match),
--- `:fields sched:sched_switch`, `:cost`, `:save NAME`.
error "this file describes the API to editors and checkers; it cannot be required"

--- Opens an event at once; its records are handled while lines are typed. Records without a handler
--- are printed. At a prompt, events of `evsel` are handled only during `run`; in a script both are
--- the same.
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

--- Handles the events declared with `evsel` for a time (`run "2s"`), for a number of events
--- (`run(100)`), or until Ctrl-C (`run()`). In a replay it reads as much of the recording. With the
--- name of a monitor and its options, starts the monitor: `run("task-state", { than = "10ms" })`.
---@param what? string|number
---@param options? table
function run(what, options) end

--- Prints the next events, by default 10:
--- `show("signal:signal_generate/sig==9/", { n = 1, stack = true })`.
---@param selector string
---@param options? perilune.ShowSpec
function show(selector, options) end

---@class perilune.ShowSpec: perilune.EvselSpec
---@field n? integer number of events; Dflt: 10
---@field time? string maximum time: `"2s"`

--- Counts events by an expression over their fields, for one second or for `time`:
--- `count("raw_syscalls:sys_enter", "syscall_name(id)", "5s")`.
---@param selector string
---@param key? string
---@param time? string
---@return perilune.Kv
function count(selector, key, time) end

--- Counts events by CPU, for one second or for `time`:
--- `stat("context-switches,page-faults", "5s")`.
---@param list string
---@param time? string
function stat(list, time) end

--- Returns the fields of an event, with their types.
---@param selector string
---@return string
function fields(selector) end

--- Draws the first rows of a table, by default 10. The table alone, as a line, draws all rows.
---@param table perilune.Kv|perilune.Latency
---@param n? integer
function top(table, n) end

--- Removes all events, timers and monitors. With a table, clears only that table.
---@param table? any
function clear(table) end

--- Returns the monitors that `run` started.
---@return string
function jobs() end

--- Returns the commands that begin with a colon.
---@return string
function help() end

--- Returns the overhead of each event so far, in nanoseconds, in the kernel and in perilune, and
--- the lines that LuaJIT cannot compile.
---@return string
function cost() end

--- Returns what was seen and lost so far.
---@return string
function lost() end

--- Writes the definitions of the session as a complete monitor: `:save switches` writes
--- switches.lua. Repeat the line to write a file outside the current folder. System folders are
--- refused.
---@param name string
---@return string
function save(name) end

--- Returns the documentation of a function.
---@param word string
---@return string
function doc(word) end
