---@meta
--- What a monitor says besides its report, and when. Times go by event time, so that a replay gives the same.
error "this file describes the API to editors and checkers; it cannot be required"

---@class perilune.AlertSpec
---@field [1] string the text
---@field key? number|string shown before the text; alerts of one key are limited together; Dflt: the text
---@field every? string|number at most one of a key in this time, `"10s"` or seconds; Dflt: 1min

--- Says that something needs attention: a note of level alert, among the results.
---
---     alert { comm(e.pid) .. " was chosen by the OOM killer", key = e.pid, every = "1min" }
---@param spec perilune.AlertSpec
function alert(spec) end

--- Says something to know, on stderr or as a note in JSON: `note("%d CPUs", 4)`.
---@param format string
---@param ... any
function note(format, ...) end

--- Ends the run after this batch of events, with its report, and says why: `stop "found it"`.
---@param why? string
function stop(why) end

--- Calls the function once per period: `every("10s", function(time) … end)`. If it returns a
--- period, that one is used from then on. Ten errors, or a call that uses more than 1 s of CPU time,
--- switch it off.
---@param period string|number seconds, when a number; at least 1ms
---@param fn fun(time: number): (string|number)?
function every(period, fn) end

--- How an event prints, for every monitor: in `printers/*.lua` on the search path, in a `--plugin FILE`, or in a monitor (its
--- file or `init`). The text stands where the fields would; JSON has it beside them, as `text`. Without a text (nil) the
--- event prints as usual, which is what `e._text` is. It is called for each event that is printed, may read all of `e`,
--- and cannot `emit`. Of several the plugin's counts before the monitor's and the search path's.
---
---     printer("sched:sched_process_fork", function(e)
---       return ("%s forked %d"):format(e.parent_comm, e.child_pid)
---     end)
---@param event string `sys:name`, or the name of a counter
---@param fn fun(e: perilune.Record): string|number|nil
function printer(event, fn) end

--- An environment for `load` in which new globals may be assigned: `load(text, "@name", "t", scope())`. It sees the words.
---@return table
function scope() end
