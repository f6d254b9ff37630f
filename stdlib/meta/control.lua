---@meta
--- Alerts, notes, timers and printers. Times are event times, so a replay gives the same output.
error "this file describes the API to editors and checkers; it cannot be required"

---@class perilune.AlertSpec
---@field [1] string the text
---@field key? number|string printed before the text; the rate limit is per key; Dflt: the text
---@field every? string|number at most one per key in this time, `"10s"` or seconds; Dflt: 1min

--- Prints an alert among the results: a note of level alert.
---
---     alert { comm(e.pid) .. " was chosen by the OOM killer", key = e.pid, every = "1min" }
---@param spec perilune.AlertSpec
function alert(spec) end

--- Prints a note on stderr, or as a note in JSON: `note("%d CPUs", 4)`.
---@param format string
---@param ... any
function note(format, ...) end

--- Ends the run after this batch of events, with its report, and prints why: `stop "found it"`. In
--- a handler at a prompt, switches all events off. A line of a prompt ends a monitor that `run`
--- started, by its number or name: `stop(1)`, `:stop task-state`.
---@param why? string|integer
function stop(why) end

--- Calls the function once per period: `every("10s", function(time) … end)`. If it returns a
--- period, that one is used from then on. The timer is switched off after ten errors, or after a
--- call that uses more than 1 s of CPU time.
---@param period string|number text with a unit, or seconds; at least 1ms
---@param fn fun(time: number): (string|number)?
function every(period, fn) end

--- Sets how an event is printed, for every monitor: in `printers/*.lua` on the search path, in a
--- `--plugin FILE`, or in a monitor (its file or `init`). The text replaces the fields; JSON has it
--- in addition to them, as `text`. If the function returns nil, the event is printed as usual; that
--- text is `e._text`. The function is called for each event that is printed, may read all of `e`,
--- and cannot `emit`. The printer of a plugin has precedence over that of the monitor, and that
--- over those of the search path.
---
---     printer("sched:sched_process_fork", function(e)
---       return ("%s forked %d"):format(e.parent_comm, e.child_pid)
---     end)
---@param event string `sys:name`, or the name of a counter
---@param fn fun(e: perilune.Record): string|number|nil
function printer(event, fn) end

--- Returns an environment for `load` in which new globals may be assigned, and which contains the
--- API: `load(text, "@name", "t", scope())`.
---@return table
function scope() end
