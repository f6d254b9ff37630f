---@meta
--- Words that draw: a value becomes text, when it is drawn. Each may stand as the second value of a column.
--- A number in text is read as a number, since that is what a 64-bit field may be; other text passes unchanged.
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

--- `errno_name(-4)` and `errno_name(4)` are `EINTR`; a number without a name stays.
---@param value number|string
---@return string
function errno_name(value) end

--- `signal_name(9)` is `KILL`, `signal_name(36)` `RTMIN+2`; `SIG99` without a name.
---@param value number|string
---@return string
function signal_name(value) end

--- `task_state(2)` is `D`, as ftrace prints `prev_state`; `R+` was preempted.
---@param value number|string
---@return string
function task_state(value) end

--- `ip(e.daddr)` is `10.0.0.7`: of 4 or 16 bytes, or of a number in network order.
---@param value number|string
---@return string
function ip(value) end

--- `device(8388609)` is `8:1`: a dev_t as the kernel's events carry it.
---@param value number|string
---@return string
function device(value) end

--- `stack_text(e._stack)` is `__kmalloc;leaky`, the innermost function first. A column that it draws is one of stacks: in JSON
--- an array, with `--flame-graph` a flame graph.
---@param stack integer
---@return string
function stack_text(stack) end

---@class perilune.StackFormat
---@field [integer] "kernel"|"user"|"addr"|"symbol"|"offset"|"dso"|"reverse" whose frames and which parts; Dflt: all
---@field frames? string between two frames; Dflt: `;`
---@field stacks? string behind the last

stack = {}

--- A word that draws stacks otherwise: `{ "stack", stack.format { "symbol", "offset", frames = " <- " } }`.
---@param format perilune.StackFormat|string
---@return fun(stack: integer): string
function stack.format(format) end

--- The name of a thread, now: `comm(e.pid)`; `<...>` when unknown.
---@param tid number
---@return string
function comm(tid) end

--- The name of an event by its `id`, as the second value of a column: `{ "event", event_name }` with `e._event.id`.
---@param id integer
---@return string
function event_name(id) end

--- A task and those that started it: `ancestry(e._tid)` is `make <- sh <- sshd <- systemd`.
---@param tid number
---@return string
function ancestry(tid) end

--- The value of a sysctl, a number where it is one: `sysctl "kernel.pid_max"`; nil when there is none.
---@param name string
---@return number|string|nil
function sysctl(name) end

--- The CPUs that are watched, sorted: `for _, cpu in ipairs(cpus()) do … end`.
---@return integer[]
function cpus() end

--- Idle and steal time of each online CPU since the machine began, by its number: nanoseconds, to a
--- hundredth of a second, from /proc/stat. Empty in a replay. The module `away` subtracts them from
--- a delay.
---
---     local stolen = cpu_times()[0].stolen
---@return table<integer, { idle: number, stolen: number }>
function cpu_times() end

--- Whether the run watches threads (-p, -t, a workload), so that `e._instance` is one, and not whole CPUs.
---@return boolean
function per_thread() end

--- The time that the run has come to, as `e._time`: in `m.interval` the interval's end.
---@return number
function now() end

--- This machine.
---@type perilune.Machine
machine = {}

---@class perilune.Machine
---@field kernel string its release
---@field cpus integer how many are online
---@field page_size integer
---@field tsc_khz? number how fast the time stamp counter counts (x86)
---@field cpu perilune.CpuModel the model of the first CPU
--- What the kernel does about split locks: `"warn"`, `"fatal"`, …; nil if the CPU cannot trap them.
---@field split_lock_detect? string

--- The model of a CPU: `{ vendor = "GenuineIntel", family = 6, model = 106, name = "Xeon …" }`.
---@class perilune.CpuModel
---@field vendor string `""` if the kernel does not print it, and so is `name`
---@field family integer 0 if the kernel does not print it, and so is `model`
---@field model integer
---@field name string
