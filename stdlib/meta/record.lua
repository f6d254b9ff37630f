---@meta
--- One event as a handler gets it, and how to print it.
error "this file describes the API to editors and checkers; it cannot be required"

--- A record. It is valid while the handler runs, and an error afterwards. It cannot be stored or
--- written: store values, or use `pending { keep = true }`. A plain name is a field of the
--- tracepoint: a number, or text. A 64-bit field is a number if a double represents it exactly (as
--- a signed number: all ones is -1, and a kernel address is negative), else its hexadecimal text,
--- so that different values never compare equal. `hex(e.ptr)` and a column with `as = "pointer"`
--- print an address; a column with `as = "unsigned"` prints a large count. Numbers in an array are
--- `e.field[i]`, from 0; an array of untyped bytes is a string. A field with the name of a Lua
--- keyword gets a `_`: `e.function_`, `e.end_`. A name that the event does not have is an error at
--- the script's line.
---
---     slept:add(e._time - since, e.prev_comm, e.prev_pid)
---@class perilune.Sample
---@field _time number ns since the start of the run
---@field _cpu integer
---@field _pid integer process
---@field _tid integer thread; -1 for a task that is exiting and has no number any more
--- Number of the stack, for use as a key and for `stack_text`. A number is never used for another
--- stack. A stack that no table and no `pending` refers to may be evicted, and is then drawn as
--- `(forgotten)`.
---@field _stack integer
---@field _comm string the thread's name; `<...>` when unknown
---@field _instance integer the CPU, or the thread with -p
---@field _event perilune.Evsel
---@field _period number
---@field _ip number|string
---@field _addr number|string
---@field _function integer function of `_ip`, a stack of one frame: use `stack.format "symbol"`
---@field _text string the text that `trace` prints after the event's name

--- The record of an event without a type of its own.
---@class perilune.Record: perilune.Sample
---@field [string] any

--- A call of a function (`kprobe:FUNCTION`, `uprobe:FILE:FUNCTION`): the six registers of its first
--- arguments. Registers beyond the number of arguments have unrelated values. An int is the lower
--- half: `bit.tobit(e.arg1)`, in expressions `(int)arg1`. Floating-point arguments are not
--- included. Parameters by name are `perilune.Record` fields: of a user-space function with debug
--- information its integers and pointers, or those that are listed, `FUNCTION(len, req.user.name)`,
--- where a dot becomes `_`: `e.req_user_name`. For a user-space function `_ip` is
--- its address. For a kernel function it is a later address, on x86 by 1 byte, or by 5 in kernels
--- with `endbr64` (CONFIG_X86_KERNEL_IBT); `_function` names the function.
---@class perilune.Call: perilune.Record
---@field arg1 integer
---@field arg2 integer
---@field arg3 integer
---@field arg4 integer
---@field arg5 integer
---@field arg6 integer

--- A return of a function (`kretprobe:FUNCTION`, `uretprobe:FILE:FUNCTION`): the register of the
--- return value; an int is its lower half. For a user-space function `_ip` is the return address,
--- for a kernel function an address in the kernel's probe code.
---@class perilune.Return: perilune.Record
---@field retval integer

--- A record kept by `pending`.
---@class perilune.Kept: perilune.Record

--- Prints events at once, as `trace` does (tracepoints in the format of ftrace, samples of counters
--- in that of perf script), with their stacks. A table after them adds fields to the first one: in
--- text above its line, in JSON among its fields. Several events belong together: none is printed
--- if perilune itself caused one of them. A table alone is printed as a row of the monitor, for
--- rare conditions.
---
---     emit(e)
---     emit(s.event, e, { late_us = late / 1e3 })
---     emit { signal = "KILL", victim = e.comm }
---@param first perilune.Sample|table<string, any>|nil
---@param ... perilune.Sample|table<string, any>|nil
function emit(first, ...) end
