---@meta
--- One event as a handler sees it, and how to print it.
error "this file describes the API to editors and checkers; it cannot be required"

--- The record: valid while the handler runs, an error afterwards. It cannot be kept or written; what must last is a
--- value, or `pending { keep = true }`. A plain name is a field of the tracepoint: a number, or text. A 64-bit field is
--- a number where a double holds it exactly (as a signed number: all ones is -1, and a kernel
--- address is negative), else its hexadecimal text, so that different values never compare equal.
--- `hex(e.ptr)` and a column with `as = "pointer"` print an address; a column with
--- `as = "unsigned"` prints a large count. Numbers in an array are `e.field[i]`, from 0; bytes
--- without a meaning are a string. A field named like a Lua keyword gets a `_`: `e.function_`,
--- `e.end_`. A name that the event has not is an error at the script's line.
---
---     slept:add(e._time - since, e.prev_comm, e.prev_pid)
---@class perilune.Sample
---@field _time number ns since the run began
---@field _cpu integer
---@field _pid integer process
---@field _tid integer thread; -1 of a task that is being taken apart
---@field _stack integer the stack's number, which stands for it as a key and is drawn by `stack_text`; no other stack ever has
---it. One that neither a table nor a `pending` holds any more may be forgotten after a while, and is drawn as `(forgotten)`
---@field _comm string the thread's name; `<...>` when unknown
---@field _instance integer the CPU, or the thread with -p
---@field _event perilune.Evsel
---@field _period number
---@field _ip number|string
---@field _addr number|string
---@field _function integer the function of `_ip`, as a stack of one frame: draw it with `stack.format "symbol"`
---@field _text string the text that `trace` prints behind the event's name

--- The record of an event whose fields are not described here.
---@class perilune.Record: perilune.Sample
---@field [string] any

--- A call of a function (`kprobe:FUNCTION`, `uprobe:FILE:FUNCTION`): its first six arguments, as many as it has, as the registers
--- have them then; the others are left over from something else. An int is the lower half: `bit.tobit(e.arg1)`, in expressions
--- `(int)arg1`. Floating-point arguments are elsewhere. What an argument points to is not read. `_ip` is where a program's function begins;
--- of the kernel's it is not that address but one behind it, on x86 by 1, or by 5 in kernels with `endbr64` (CONFIG_X86_KERNEL_IBT):
--- `_function` names it.
---@class perilune.Call: perilune.Record
---@field arg1 integer
---@field arg2 integer
---@field arg3 integer
---@field arg4 integer
---@field arg5 integer
---@field arg6 integer

--- A return of a function (`kretprobe:FUNCTION`, `uretprobe:FILE:FUNCTION`): what it returns, as the register has it; of an int the
--- lower half. `_ip` is where a program's function returns to; of the kernel's it is in the kernel's own probing code.
---@class perilune.Return: perilune.Record
---@field retval integer

--- A record that `pending` kept.
---@class perilune.Kept: perilune.Record

--- Prints events now, as `trace` does (tracepoints as ftrace has them, samples of counters as perf script), with their
--- stacks. A table behind them adds fields to the first: above its line in text, among its fields in JSON. Of several, which belong
--- together, none is printed if one is perilune's own doing. A table alone is a row, in the monitor's name, for rare things.
---
---     emit(e)
---     emit(s.event, e, { late_us = late / 1e3 })
---     emit { signal = "KILL", victim = e.comm }
---@param first perilune.Sample|table<string, any>|nil
---@param ... perilune.Sample|table<string, any>|nil
function emit(first, ...) end
