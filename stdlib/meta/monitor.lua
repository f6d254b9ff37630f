---@meta
--- The module that a script returns: what it declares of itself, and the functions that the host calls.
error "this file describes the API to editors and checkers; it cannot be required"

--- What `monitor` takes. An unknown name is an error that shows the nearest.
---@class perilune.MonitorSpec
---@field summary string one line for `perilune monitors` and `perilune help`
---@field options? (perilune.SharedOption|perilune.Option)[] an option made by `flag`, `number`, …, or the name of a shared one: `"call-graph"`
---@field order? boolean whether events reach handlers in time order across CPUs; Dflt: true with more than one event or with `pending`
---@field every? string the default of -i: `"1s"`; without it, and of a command, one report at the end
---@field screen? boolean whether its tables fill the screen where results go to a terminal, with keys to sort, filter and pause; needs `every` or -i; Dflt: false
---@field idle? string why there may be no event, said at the end of a run that saw none: `"no virtual machine runs here"`
---@field all_tasks? boolean with -p, -C or a command, also call the `on_…` task callbacks for other tasks; Dflt: false
---@field pages? integer pages of each CPU's ring; Dflt: the host's size

--- Makes the module that the script returns.
---
---     local m = monitor { summary = "signals generated for a task", options = { "call-graph" } }
---@param spec perilune.MonitorSpec
---@return perilune.Monitor
function monitor(spec) end

--- A monitor. `init` must be there; every other function is left out when it is not needed.
---@class perilune.Monitor
---@field opt perilune.Options what the user asked for; set before `init`
local m = {}

--- Declares events and aggregates. Nothing is open yet, and nothing may be printed.
---
---     function m.init(opt) calls = kv { "comm" } end
---@param opt perilune.Options
function m.init(opt) end

--- Narrows the events, with `ev:filter`. Runs after `init`, before anything is attached, and again
--- when the events are narrowed anew while running.
---
---     function m.filter(opt) generate:filter("comm ~ %s", opt.filter) end
---@param opt perilune.Options
function m.filter(opt) end

--- One event, of each evsel that has no handler of its own.
---
---     function m.sample(e) emit(e) end
---@param e perilune.Record
function m.sample(e) end

--- The end of an interval: returns what to draw, in this order, under one time line. Nothing, nil
--- and false draw nothing; any other value that cannot be drawn is an error.
--- Without this function every aggregate is drawn, in the order of their declaration.
---
---     function m.interval(seconds) return calls, errors end
---
--- A call that uses more than 5 s of CPU time, or the tenth error, switches it off; tables are then
--- drawn as declared.
---@param seconds number length of the interval; with counters, the time that their counts are of
---@return perilune.Drawable? ...
function m.interval(seconds) end

--- The end of the run, Ctrl-C included; like `interval`, which it falls back to.
---
---     function m.deinit() return leaks end
---@param seconds number length of the last interval
---@return perilune.Drawable? ...
function m.deinit(seconds) end

--- A watched task forked. Watched are the tasks of -p, -t or the command and their children, else
--- all tasks; with -C, only on those CPUs. With `monitor { all_tasks = true }`, all forks on the
--- machine are reported.
---
---     function m.on_fork(r) children:add(r.ppid) end
---@param r { tid: integer, pid: integer, ptid: integer, ppid: integer, time: number }
function m.on_fork(r) end

--- A watched task executed a program; its name is the new one.
---@param r { tid: integer, pid: integer, comm: string, time: number }
function m.on_exec(r) end

--- A watched task ended.
---@param r { tid: integer, pid: integer, time: number }
function m.on_exit(r) end

--- A watched task changed its name without executing a program.
---@param r { tid: integer, pid: integer, comm: string, time: number }
function m.on_comm(r) end

--- A watched task mapped a file that it may execute.
---@param r { tid: integer, pid: integer, address: number, length: number, offset: number, path: string, time: number }
function m.on_mmap(r) end

--- Events of that CPU between these times were lost. In an ordered run it comes before any event of that time, so `to` may be yet to
--- come. `pending` has dropped what it must; rarely needed.
---@param from number ns since the run began
---@param to number ns since the run began
---@param cpu integer
function m.on_lost(from, to, cpu) end

--- What an interval may draw.
---@alias perilune.Drawable false|perilune.States|perilune.FlameGraph|perilune.Latency|perilune.Kv|perilune.Hist|perilune.Counters|perilune.Report
