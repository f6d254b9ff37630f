---@meta
--- The module that a script returns: its declaration, and the functions that perilune calls.
error "this file describes the API to editors and checkers; it cannot be required"

--- Argument of `monitor`. An unknown name is an error that shows the nearest known one.
---@class perilune.MonitorSpec
---@field summary string one line for `perilune monitors` and `perilune help`
---@field group? perilune.MonitorGroup the question that it answers, for the lists of monitors
---@field api? integer version of the API that the script needs; Dflt: 1, the present one
---@field options? (perilune.SharedOption|perilune.Option)[] `flag {…}`, `"call-graph"`, …
---@field order? boolean time order across CPUs; Dflt: if events are related, printed or name tasks
---@field every? string default of -i: `"1s"`; without it, or with a COMMAND, one report at the end
---@field screen? boolean tables fill the terminal, with keys; needs `every` or -i; Dflt: false
---@field idle? string reason why there may be no events; printed at the end of a run without events
---@field all_tasks? boolean with -p, -C or a COMMAND, call `on_…` for other tasks, too; Dflt: false
---@field whole_cpus? boolean watches whole CPUs, also with a COMMAND; no -p, no -t; Dflt: false
---@field independent? boolean each event only goes to tables or `emit`; allows `--budget`
---@field emits? perilune.Option[] columns of the events that other monitors take: `evsel.from`
---@field pages? integer pages of each CPU's ring; Dflt: the size without -m

--- A heading under which `perilune` and `perilune monitors` list the monitor.
---@alias perilune.MonitorGroup
---| "events" # Any event
---| "cpu" # CPU
---| "memory" # Memory
---| "disk" # Disks and files
---| "network" # Network
---| "locks" # Locks
---| "processes" # Processes
---| "kernel" # Kernel
---| "vm" # Virtual machines

--- Makes the module that the script returns. `options` contains options made by `flag`, `number`,
--- …, and names of shared options. The keys of a `screen` sort, filter and pause.
---
---     local m = monitor { summary = "signals generated for a task", options = { "call-graph" } }
---@param spec perilune.MonitorSpec
---@return perilune.Monitor
function monitor(spec) end

--- A monitor. `init` is required; the other functions are optional.
---@class perilune.Monitor
---@field opt perilune.Options options of the command line; set before `init`
local m = {}

--- Declares events and aggregates. No event is open yet, and nothing may be printed.
---
---     function m.init(opt) calls = kv { "comm" } end
---@param opt perilune.Options
function m.init(opt) end

--- Sets the filters of the events, with `ev:filter`. Called after `init`, before any event is
--- opened.
---
---     function m.filter(opt) generate:filter("comm ~ %s", opt.filter) end
---@param opt perilune.Options
function m.filter(opt) end

--- Handles the events of each evsel without a handler.
---
---     function m.sample(e) emit(e) end
---@param e perilune.Record
function m.sample(e) end

--- Called at the end of an interval: returns the objects to draw, in this order, under one time
--- line. Nothing, nil and false draw nothing; any other value that cannot be drawn is an error.
--- Without this function all aggregates are drawn, in the order of their declaration.
---
---     function m.interval(seconds) return calls, errors end
---
--- It is switched off after a call that uses more than 5 s of CPU time, or after ten errors; the
--- tables are then drawn as declared.
---@param seconds number length of the interval; with counters, the time that their counts cover
---@return perilune.Drawable? ...
function m.interval(seconds) end

--- Called at the end of the run, also after Ctrl-C. Like `interval`, which is the fallback.
---
---     function m.deinit() return leaks end
---@param seconds number length of the last interval
---@return perilune.Drawable? ...
function m.deinit(seconds) end

--- Called when a watched task forks. Watched tasks are those of -p, -t, --cgroup or the COMMAND and
--- their children, else all tasks; with -C, only on those CPUs. With
--- `monitor { all_tasks = true }`, it is called for all forks on the machine.
---
---     function m.on_fork(r) children:add(r.ppid) end
---@param r { tid: integer, pid: integer, ptid: integer, ppid: integer, time: number }
function m.on_fork(r) end

--- Called when a watched task executes a program; `comm` is the new name.
---@param r { tid: integer, pid: integer, comm: string, time: number }
function m.on_exec(r) end

--- Called when a watched task ends.
---@param r { tid: integer, pid: integer, time: number }
function m.on_exit(r) end

--- Called when a watched task changes its name without executing a program.
---@param r { tid: integer, pid: integer, comm: string, time: number }
function m.on_comm(r) end

--- Called when a watched task maps an executable file.
---@param r perilune.Mapping
function m.on_mmap(r) end

--- Called when a watched task is switched in or out. There may be a million such records per
--- second: `sched:sched_switch` with a filter is cheaper. `other_pid` and `other_tid` are the next
--- task (`out`) or the previous one.
---@param r perilune.Switch
function m.on_switch(r) end

---@class perilune.Switch
---@field tid integer
---@field pid integer
---@field out boolean
---@field preempted boolean
---@field other_tid? integer
---@field other_pid? integer
---@field cpu integer
---@field time number

--- Called when a watched task changes its namespaces (unshare, setns, clone): the inode of each.
---@param r perilune.Namespaces
function m.on_namespaces(r) end

---@class perilune.Namespaces
---@field tid integer
---@field pid integer
---@field net_ns number
---@field uts_ns number
---@field ipc_ns number
---@field pid_ns number
---@field user_ns number
---@field mnt_ns number
---@field cgroup_ns number
---@field cpu integer
---@field time number

--- Called when a cgroup is created; `id` is its inode, as `e._cgroup_id`.
---@param r { id: number, path: string, cpu: integer, time: number }
function m.on_cgroup(r) end

--- Called when the kernel registers or removes the symbol of generated code: a BPF program (`kind`
--- is `bpf`) or a trampoline (`out of line`).
---@param r perilune.KernelSymbol
function m.on_ksymbol(r) end

---@class perilune.KernelSymbol
---@field address number|string
---@field length number
---@field kind string
---@field name string
---@field removed boolean
---@field cpu integer
---@field time number

--- Called when a BPF program is loaded or unloaded (`kind`).
---@param r { id: number, kind: string, tag: string, cpu: integer, time: number }
function m.on_bpf(r) end

--- Called when the kernel stops sampling an event until the next tick because it exceeds
--- `kernel.perf_event_max_sample_rate`, and when it starts again (`throttled` is false).
---@param r { event: string, throttled: boolean, cpu: integer, time: number }
function m.on_throttle(r) end

--- Called when the kernel modifies its own code, as for a tracepoint that is enabled; `old` and
--- `new` are the bytes of the instruction.
---@param r { address: number|string, old: string, new: string, cpu: integer, time: number }
function m.on_text_poke(r) end

---@class perilune.Mapping
---@field tid integer
---@field pid integer
---@field address number
---@field length number
---@field offset number
---@field path string
---@field build_id? string hexadecimal digits; nil if the file has none, at a prompt, or before 5.12
---@field time number

--- Called when events of a CPU were lost between two times. In an ordered run it is called before
--- any event of that time, so `to` may be in the future. Rarely needed: `pending` drops its open
--- keys itself.
---@param from number ns since the start of the run
---@param to number ns since the start of the run
---@param cpu integer
function m.on_lost(from, to, cpu) end

--- Objects that an interval may draw.
---@alias perilune.Drawable
---| false
---| perilune.States
---| perilune.FlameGraph
---| perilune.Latency
---| perilune.Kv
---| perilune.Hist
---| perilune.Counters
---| perilune.Report
