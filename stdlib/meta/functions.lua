---@meta
--- Formatting functions, which return a value as text, and functions of the machine and the run.
--- A formatting function may be the second value of a column: it is called when the column is
--- drawn. Text that is a number is parsed, because a 64-bit field may be text; other text is not
--- changed.
error "this file describes the API to editors and checkers; it cannot be required"

--- `hex(31)` is `0x1f`. A negative number shows its 64 bits.
---@param value number|string
---@return string
function hex(value) end

--- `bytes(1572864)` is `1.5MiB`.
---@param value number|string
---@return string
function bytes(value) end

--- `syscall_name(110)` is `getppid` on x86_64; `syscall_9999` without a name.
---@param value number|string
---@return string
function syscall_name(value) end

--- `errno_name(-4)` and `errno_name(4)` are `EINTR`; a number without a name is not changed.
---@param value number|string
---@return string
function errno_name(value) end

--- `signal_name(9)` is `KILL`, `signal_name(36)` `RTMIN+2`; `SIG99` without a name.
---@param value number|string
---@return string
function signal_name(value) end

--- `task_state(2)` is `D`, as ftrace prints `prev_state`; `R+` is preempted.
---@param value number|string
---@return string
function task_state(value) end

--- `ip(e.daddr)` is `10.0.0.7`: from 4 or 16 bytes, or from a number in network byte order.
---@param value number|string
---@return string
function ip(value) end

--- `device(8388609)` is `8:1`: a dev_t as in the kernel's events.
---@param value number|string
---@return string
function device(value) end

--- `stack_text(e._stack)` is `__kmalloc;leaky`, the innermost function first. A column that it
--- draws contains stacks: an array in JSON, a flame graph with `--flame-graph`.
---@param stack integer
---@return string
function stack_text(stack) end

---@class perilune.StackFormat
--- Which frames, and which parts of a frame; Dflt: all.
---@field [integer] "kernel"|"user"|"addr"|"symbol"|"offset"|"dso"|"reverse"
---@field frames? string text between two frames; Dflt: `;`
---@field stacks? string text after the last frame

stack = {}

--- The number of the stack without frames, for a row that has none: `none or e._stack`.
---@type integer
stack.none = 1

--- Returns a function that formats stacks in another way:
--- `{ "stack", stack.format { "symbol", "offset", frames = " <- " } }`.
---@param format perilune.StackFormat|string
---@return fun(stack: integer): string
function stack.format(format) end

---@class perilune.Span
---@field name string
---@field delay number length in nanoseconds
---@field time? number its end, in nanoseconds of the run; Dflt: that of the current event
---@field tid? number its thread; Dflt: that of the current event
---@field track? string name of its track, below the thread; Dflt: name
---@field fields? table<string, string|number|boolean> values to show with it

--- Adds something that lasted to the timeline of `--perfetto`; does nothing without it. The monitor
--- lists the option: `options = { "perfetto" }`.
---
---     local call = calls:close(e._tid, e)
---     if call then
---       span { name = syscall_name(e.id), delay = call.delay, fields = { result = e.ret } }
---     end
---@param span perilune.Span
function span(span) end

--- Returns the current name of a thread: `comm(e.pid)`; `<...>` if unknown.
---@param tid number
---@return string
function comm(tid) end

--- Returns the name of an event by its `id`, for use in a column: `{ "event", event_name }` with
--- `e._event.id`.
---@param id integer
---@return string
function event_name(id) end

--- Returns a task and its ancestors: `ancestry(e._tid)` is `make <- sh <- sshd <- systemd`.
---@param tid number
---@return string
function ancestry(tid) end

--- Returns the file of a descriptor as the kernel prints it now: a path, `/path (deleted)`,
--- `socket:[12345]`, `pipe:[12345]`, `anon_inode:[eventpoll]`; and the time of the run at which it
--- was read, which is later than that of the current event: the descriptor may have been closed and
--- opened again since. The module `descriptors` checks this. Returns nil if the process has ended
--- or closed the descriptor, and in a replay.
---@param pid number
---@param fd number
---@return string? path
---@return number? time
function fd_path(pid, fd) end

--- Returns what /proc shows of a process now, which is later than the current event; nil if it has
--- ended, and in a replay. `args` are its arguments joined by blanks, at most 4096 bytes; `uid` is
--- the effective user; `time` is the time of the run at which it was read.
---
---     local p = process(e.pid)
---     if p then started:add(p.args, p.uid) end
---@param pid number
---@return { args: string, uid: integer, ppid: integer, time: number }?
function process(pid) end

--- Returns the name of the memory at an address of a process: of a variable, `queue_lock` or
--- `queue_lock+0x8`; of a file without a symbol for it, `libc.so.6+0x1d3c60`; of a mapped file,
--- `/dev/shm/queue+0x40`; of the regions that the kernel names, `[heap]`. Process 0 is the kernel.
--- Returns nil for other memory, if the process has ended, and in a replay. Reads /proc at each
--- call, so keep the answer.
---@param pid number
---@param address number|string
---@return string?
function variable_name(pid, address) end

--- Returns the thread that holds a futex of a process now, and the time of the run at which it was
--- read: it held the futex during a wait that lasted longer. Known for a futex with priority
--- inheritance (`pi`), a robust one, and a mutex of glibc that a task waits for. Returns nil
--- otherwise, in another pid namespace than perilune's, if the process has ended, and in a replay.
---@param pid number
---@param address number|string
---@param pi? boolean
---@return integer? tid
---@return number? time
function futex_holder(pid, address, pi) end

--- Returns the value of a sysctl, if possible as a number: `sysctl "kernel.pid_max"`; nil if it
--- does not exist.
---@param name string
---@return number|string|nil
function sysctl(name) end

--- Returns major and minor number of a block device by its name in /dev, by its path, or by its
--- numbers `259:3`, and of a partition the name of its disk:
--- `local major, minor, disk = block_device "vda1"`; nil if it does not exist, and in a replay.
---@param name string
---@return integer? major
---@return integer? minor
---@return string? disk
function block_device(name) end

--- Returns the watched CPUs, sorted: `for _, cpu in ipairs(cpus()) do … end`.
---@return integer[]
function cpus() end

--- Returns the paths of the cgroups that a glob matches: `cgroups "/docker/*"`; the text itself if
--- it is not a glob, and in a replay; nil and the reason if none matches, or more than 64.
---@param pattern string
---@return string[]? paths
---@return string? why
function cgroups(pattern) end

--- Returns idle and steal time of each online CPU since boot, by CPU number: nanoseconds, with a
--- resolution of 10 ms, from /proc/stat. Empty in a replay. The module `away` subtracts them from a
--- delay.
---
---     local stolen = cpu_times()[0].stolen
---@return table<integer, { idle: number, stolen: number }>
function cpu_times() end

--- Returns the time in which tasks waited for a resource, `"cpu"`, `"memory"` or `"io"`: `some` is
--- that of at least one task, `full` that of all tasks that were not idle. `avg10`, `avg60` and
--- `avg300` are percent of the last seconds, which the kernel updates every 2 s; `total` is
--- nanoseconds since boot. Returns nil if the kernel does not measure it, and in a replay.
---
---     local waits = pressure "memory"
---     if waits then emit { some_avg10 = waits.some.avg10 } end
---@param resource "cpu"|"memory"|"io"|"irq"
---@return { some: perilune.Stall, full: perilune.Stall? }?
function pressure(resource) end

---@class perilune.Stall
---@field avg10 number
---@field avg60 number
---@field avg300 number
---@field total number

--- Returns whether the run watches threads (-p, -t, a COMMAND) and not whole CPUs; `e._instance` is
--- then the thread.
---@return boolean
function per_thread() end

--- Returns whether the run watches only some tasks (-p, -t, a COMMAND, --cgroup): the `task` of an
--- evsel selects the records about them.
---@return boolean
function some_tasks() end

--- Returns the current time of the run, comparable to `e._time`: in `m.interval` the end of the
--- interval.
---@return number
function now() end

--- This machine.
---@type perilune.Machine
machine = {}

---@class perilune.Machine
---@field kernel string kernel release
---@field cpus integer number of online CPUs
---@field page_size integer
---@field tsc_khz? number frequency of the time stamp counter (x86)
---@field cpu perilune.CpuModel the model of the first CPU
--- Mode of split lock detection: `"warn"`, `"fatal"`, …; nil if the CPU cannot trap split locks.
---@field split_lock_detect? string

--- The model of a CPU: `{ vendor = "GenuineIntel", family = 6, model = 106, name = "Xeon …" }`.
---@class perilune.CpuModel
---@field vendor string `""` if the kernel does not print it, like `name`
---@field family integer 0 if the kernel does not print it, like `model`
---@field model integer
---@field name string
