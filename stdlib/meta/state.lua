---@meta
--- State between events. All of it is bounded; what is evicted is counted and reported.
error "this file describes the API to editors and checkers; it cannot be required"

--- Names of the stored values, and options.
---@class perilune.PendingSpec
---@field [integer] string
---@field key? "tid"|"cpu"|"pointer"|"any" a `"tid"` is dropped when its task ends; Dflt: any
---@field keep? any keep the whole opening event, unless false or nil: `keep = opt.than`
---@field lost? "drop"|"keep" after lost events drop open keys, or keep them as `unsure`; Dflt: drop
---@field age? string|number|false timeout of open keys in nanoseconds, or `"10s"`; Dflt: none
---@field nested? boolean allow openings inside open ones, up to 64 deep; `close` gets the call
---@field uretprobes? boolean with `nested`: uretprobes end the calls; deeper ones have no return

--- One slot per key, between an event that opens it and one that closes it. A key that is open for
--- longer than `age` is evicted, and counted so, when another key is opened.
---
---     local asleep = pending { "state", key = "tid", keep = opt.than }
---@param spec perilune.PendingSpec
---@return perilune.Pending
function pending(spec) end

---@class perilune.Pending
local p = {}

--- The state of a key. Valid until the key is opened again.
---@class perilune.State
---@field delay number ns from the opening to the closing event; only from `close`
---@field time number the opening event's `_time`
---@field tid? integer the task, in `longer` of `states`
---@field unsure boolean whether events were lost since the opening, with `lost = "keep"`
---@field event? perilune.Kept the opening event, with `keep`
---@field [string] any the values by name; assignable

--- Stores the event's time and the values. An open state of the key is replaced and counted as
--- unmatched. Returns false without storing anything if the event lies within a loss of events, or
--- is nested too deeply. A script that counts open states by itself must count only stored ones.
---
---     asleep:open(e.prev_pid, e, e.prev_state)
---@param key number|string
---@param e perilune.Sample
---@param ... number|string
---@return boolean
function p:open(key, e, ...) end

--- Like `open`, but does not replace an open state of the key: returns false if there is one.
---@param key number|string
---@param e perilune.Sample
---@param ... number|string
---@return boolean
function p:open_once(key, e, ...) end

--- Removes the key and returns its state, or nil.
---
---     local s = asleep:close(e.pid, e)
---     if s then slept:add(s.delay, s.state) end
---
--- With `nested`, removes the innermost state whose first value is `call`, a number:
--- `local s = calls:close(e._tid, e, WRITE)`. States nested in it have no end and count as
--- unmatched; `get` then returns the enclosing state.
---@param key number|string
---@param e perilune.Sample
---@param call? number
---@return perilune.State?
function p:close(key, e, call) end

--- Returns the state of a key without removing it: `local s = inside:get(e._tid)`.
---@param key number|string
---@return perilune.State?
function p:get(key) end

--- Drops a key whose closing event is missing, and counts it as unmatched.
---
---     if running[e._cpu] ~= e.prev_pid then waits:miss(e.prev_pid) end
---@param key number|string
function p:miss(key) end

--- Iterates over the open keys: `for ptr, block in live:each() do … end`. Not allowed in a handler.
---@return fun(): number|string, perilune.State
function p:each() end

--- Returns the number of open keys: `live:len()`.
---@return integer
function p:len() end

--- Keeps the last 64 MiB of the events of all evsels: half a second at a million events per second,
--- hours at low rates. It starts with the run, so it must be called in `init`. The overhead is
--- about 30 ns per event.
---
---     local past = history()
---     if call.delay > 10e6 then past:between(call, e, { before = 1e6 }) end
---
--- `memory` is in bytes, less than 64 MiB: `{ memory = "4MiB" }`. With `before` no window begins
--- more than this many nanoseconds before the oldest open state of a `pending`: older events are
--- dropped at once, which saves memory and 20 ns per event. It takes effect if all calls of
--- `history` have it.
---@param spec? { memory?: string|integer, before?: number }
---@return perilune.History
function history(spec) end

---@class perilune.History
local h = {}

--- How a window is printed. With `after`, it is printed when that time has passed, or the run ends;
--- at most 1024 windows wait for this.
---@class perilune.Window
---@field before? number nanoseconds before the beginning that are included
---@field after? number nanoseconds after the end that are included
--- Only events for which it returns true: `where = function(x) return x._cpu == cpu end`.
---@field where? fun(e: perilune.Record): boolean
---@field values? any[][] values of the heading: `{ { "delay_us", 12.5 } }`

--- Prints all events from one event or time to another, both included: a heading with the window's
--- number, `detail`, then the events, each with its offset from the first. A record of several
--- evsels is printed once, if one of them gets it. The heading reports missing events:
--- `earlier_events_gone` at least were evicted, `events_lost` were lost by the kernel. If the
--- opening event of a state was evicted, too, it is printed if it was kept (`keep` of `pending`).
---@param from perilune.State|perilune.Record|perilune.Kept|number
---@param to perilune.State|perilune.Record|perilune.Kept|number
---@param how? perilune.Window
function h:between(from, to, how) end

--- Counts a state as unmatched: its beginning or end has no event. A `pending` counts its own.
---
---     if task[e._cpu] ~= e.prev_pid then unmatched() end
function unmatched() end

--- A number per CPU: `local last = per_cpu(0)`, then `last[e._cpu] = e._time`. Use `-math.huge` for
--- "never": times start at 0. Each number is reset to `init` when events were lost.
---@param init number
---@return table<integer, number>
function per_cpu(init) end

--- Event counts by key in a sliding window of event time: `local busy = rate { window = "1s" }`.
---@param spec { window: string }
---@return perilune.Rate
function rate(spec) end

---@class perilune.Rate
local r = {}

--- Counts one event, and returns the count in the window that ends now:
--- `busy:add(e._cpu, e._time)`.
---@param key number|string
---@param time number
---@return integer
function r:add(key, time) end

---@class perilune.StatesSpec
---@field [integer] perilune.Column keys of the table, one of them called `state`
---@field keep? any keep the event that began each state, for `stay.event`, unless false or nil
---@field than? string|number minimum duration for `longer`: nanoseconds, or `"10ms"`
---@field longer? fun(stay: perilune.State, e: perilune.Sample) gets a state and its last event
---@field unit? "ns"|"us"|"ms"|"s" unit of the table; Dflt: us
---@field count? string title of the count of stays, which is `calls` in JSON; Dflt: calls
---@field title? string
---@field top? integer maximum number of rows; Dflt: all
---@field percentiles? boolean p50, p95 and p99 before max; --json always has them

--- One state at a time per task, and a table of the durations. States are integers: 0 is running, a
--- negative state is not timed. States that are open while events are lost are dropped and counted.
---
---     local stays = states { { "state", task_state }, "comm" }
---     if not stays:move(tid, e, state) then stays:enter(tid, e, state, e.prev_comm) end
---@param spec perilune.StatesSpec
---@return perilune.States
function states(spec) end

---@class perilune.States
local st = {}

--- Ends the task's state, if it is known, and begins another, with a value for each column.
---@param tid integer
---@param e perilune.Sample
---@param ... number|string
---@return true
function st:enter(tid, e, ...) end

--- Ends the task's state and begins another with the same other values. Returns false if the task
--- is not known, or its name changed: then call `enter`. This is faster than `enter`: it reads no
--- text.
---@param tid integer
---@param e perilune.Sample
---@param state integer
---@return boolean
function st:move(tid, e, state) end

--- Like `move`, but only from a state that has a bit of the mask; a negative state has the bits of
--- its absolute value:
--- `stays:move_from(0xff, e.pid, e, WOKEN)`.
---@param mask integer
---@param tid integer
---@param e perilune.Sample
---@param state integer
---@return boolean
function st:move_from(mask, tid, e, state) end

--- Switches a CPU from one task to another: `prev` moves to `state`, then `next` to state 0. Task 0
--- is ignored. Returns for each task whether it was known, as `move` does; if not, call `enter`. If
--- `prev` was not running, or `next` was already running, a switch is missing: the duration of the
--- state is not known, and it counts as unmatched.
---@param prev integer
---@param state integer
---@param next integer
---@param e perilune.Sample
---@return boolean prev
---@return boolean next
function st:switch(prev, state, next, e) end

--- Ends the task's state and removes the task.
---@param tid integer
---@param e perilune.Sample
function st:leave(tid, e) end

--- Iterates over the rows, as in `latency`:
--- `for state, comm, s in stays:each() do … s.total … end`.
---@return fun(): ...
function st:each() end

--- Iterates over the states that have not ended at a time, usually `now()`:
--- `for tid, stay in stays:still(now()) do … stay.delay … end`. The table is not changed: its rows
--- contain only states that ended. `stay` is valid until the next iteration.
---@param time number nanoseconds since the start of the run
---@return fun(): integer?, perilune.State?
function st:still(time) end
