---@meta
--- What a monitor remembers between events. All of it is bounded; what the bound drops is counted and shown.
error "this file describes the API to editors and checkers; it cannot be required"

--- Names of the values that are kept, and how.
---@class perilune.PendingSpec
---@field [integer] string
---@field key? "tid"|"cpu"|"pointer"|"any" what the key is; a `"tid"` is forgotten when its task ends; Dflt: any
---@field keep? any keep the whole opening event, unless false or nil: `keep = opt.than`
---@field lost? "drop"|"keep" after lost events, drop open keys, or keep them as `unsure`; Dflt: drop
---@field age? string|number|false an opening that is longer ago has no end any more: it is given up, and counted as evicted, when another key is opened; nanoseconds, or `"10s"`
---@field nested? boolean opening again begins inside of what is open, up to 64 deep; `close` takes which call ends
---@field label? string what one left open at the end is called

--- One slot per key, between an event that opens and one that closes it.
---
---     local asleep = pending { "state", key = "tid", keep = opt.than }
---@param spec perilune.PendingSpec
---@return perilune.Pending
function pending(spec) end

---@class perilune.Pending
local p = {}

--- What was remembered of a key. Valid until the key is opened again.
---@class perilune.State
---@field delay number ns from the opening to the closing event; of `close` only
---@field time number the opening event's `_time`
---@field unsure boolean whether events were lost since the opening, with `lost = "keep"`
---@field event? perilune.Kept the opening event, with `keep`
---@field [string] any the values, by their names; may be assigned

--- Remembers the event's time and the values. What is open for the key is replaced, and counted as unmatched.
---
---     asleep:open(e.prev_pid, e, e.prev_state)
---@param key number|string
---@param e perilune.Sample
---@param ... number|string
function p:open(key, e, ...) end

--- As `open`, but what is open for the key stays: the first counts.
---@param key number|string
---@param e perilune.Record
---@param ... number|string
function p:open_once(key, e, ...) end

--- Forgets the key and returns what was remembered, or nil.
---
---     local s = asleep:close(e.pid, e)
---     if s then slept:add(s.delay, s.state) end
--- With `nested`, the innermost one whose first field is `call`, a number: `local s = calls:close(e._tid, e, WRITE)`. What is open
--- inside of it never came back, and counts as unmatched; `get` is then what it was inside of.
---@param key number|string
---@param e perilune.Sample
---@param call? number
---@return perilune.State?
function p:close(key, e, call) end

--- What is remembered, without forgetting it: `local s = inside:get(e._tid)`.
---@param key number|string
---@return perilune.State?
function p:get(key) end

--- Drops a key whose closing event was missed, and counts it as unmatched.
---
---     if running[e._cpu] ~= e.prev_pid then waits:miss(e.prev_pid) end
---@param key number|string
function p:miss(key) end

--- Every open key: `for ptr, block in live:each() do … end`. Not in a handler.
---@return fun(): number|string, perilune.State
function p:each() end

--- How many are open: `live:len()`.
---@return integer
function p:len() end

--- The events of the run so far, of all evsels, the last 64 MiB of them: half a second of a million a second, hours of few. It begins
--- with the run, so it is called in `init`. Each event costs some 30 ns more, whether it is ever asked for or not.
---
---     local past = history()
---     if call.delay > 10e6 then past:between(call, e, { before = 1e6 }) end
---
--- `memory` is in bytes, fewer than 64 MiB: `{ memory = "4MiB" }`. With `before` no window begins longer than so many nanoseconds
--- before a state that a `pending` has open: what is older is forgotten at once, which costs less memory and 20 ns an event less.
--- It counts if all who call `history` say so.
---@param spec? { memory?: string|integer, before?: number }
---@return perilune.History
function history(spec) end

---@class perilune.History
local h = {}

--- How a window is shown.
---@class perilune.Window
---@field before? number nanoseconds before its beginning that are shown, too
---@field after? number nanoseconds behind its end that are shown, too: it is printed once they are over, or the run is. 1024 windows wait at most
---@field where? fun(e: perilune.Record): boolean only events of which this is true: `where = function(x) return x._cpu == cpu end`
---@field tell? any[][] what the heading says: `{ { "delay_us", 12.5 } }`

--- Prints all that happened from one event or time to another, both included: a heading with the window's number, `detail`, then the
--- events, each with its distance from the first. A record of several evsels is printed once, if one of them gets it. What is not
--- there any more the heading says: `earlier_events_gone` at least, `events_lost` of the kernel. A state whose own event has gone, too,
--- shows it if it was kept (`keep` of `pending`).
---@param from perilune.State|perilune.Record|perilune.Kept|number
---@param to perilune.State|perilune.Record|perilune.Kept|number
---@param how? perilune.Window
function h:between(from, to, how) end

--- A number for each CPU: `local last = per_cpu(0)`, then `last[e._cpu] = e._time`. "Never" is `-math.huge`: times start at 0.
--- When events were lost each is `init` again.
---@param init number
---@return table<integer, number>
function per_cpu(init) end

--- How often something happens, by key, over a sliding window of event time: `local busy = rate { window = "1s" }`.
---@param spec { window: string }
---@return perilune.Rate
function rate(spec) end

---@class perilune.Rate
local r = {}

--- Counts one, and returns how many there were in the window that ends now: `busy:add(e._cpu, e._time)`.
---@param key number|string
---@param time number
---@return integer
function r:add(key, time) end

---@class perilune.StatesSpec
---@field [integer] perilune.Column keys of the table, one of them called `state`
---@field keep? any keep the event that began each state, for `stay.event`, unless false or nil
---@field than? string|number only states that were held longer are given to `longer`: nanoseconds, or `"10ms"`
---@field longer? fun(stay: perilune.State, e: perilune.Sample) gets a state that ended and the event that ended it
---@field unit? "ns"|"us"|"ms"|"s" of the table; Dflt: us
---@field count? string title of the count of stays, which is `calls` in JSON; Dflt: calls
---@field title? string
---@field top? integer rows; Dflt: all
---@field percentiles? boolean p50, p95 and p99 before max; --json always has them

--- One state at a time for each task, and a table of how long each was held. States are whole numbers: 0 is running, one
--- below 0 is not timed. What was entered before events were lost is dropped, and counted.
---
---     local stays = states { { "state", task_state }, "comm" }
---     if not stays:move(tid, e, state) then stays:enter(tid, e, state, e.prev_comm) end
---@param spec perilune.StatesSpec
---@return perilune.States
function states(spec) end

---@class perilune.States
local st = {}

--- Ends the task's state, if one is known, and begins another, with a value for each column.
---@param tid integer
---@param e perilune.Sample
---@param ... number|string
---@return true
function st:enter(tid, e, ...) end

--- Ends the task's state and begins another with the same other values; false when nothing is known of the task, or its
--- name changed: then `enter` it. This is the cheap way, which reads no text.
---@param tid integer
---@param e perilune.Sample
---@param state integer
---@return boolean
function st:move(tid, e, state) end

--- As `move`, but only from a state that has a bit of the mask: `stays:move_from(0xff, e.pid, e, WOKEN)`.
---@param mask integer
---@param tid integer
---@param e perilune.Sample
---@param state integer
---@return boolean
function st:move_from(mask, tid, e, state) end

--- One task gives its CPU to another: `prev` moves to `state`, then `next` to state 0. Task 0 is nobody. Says of each
--- whether it was known, as `move` does; one that was not has to be entered.
--- A task that was not running when it gave its CPU away, or was when it got one, has had a switch that is missing: how long its
--- state lasted is not known, and it counts as unmatched.
---@param prev integer
---@param state integer
---@param next integer
---@param e perilune.Sample
---@return boolean prev
---@return boolean next
function st:switch(prev, state, next, e) end

--- Ends the task's state and forgets the task.
---@param tid integer
---@param e perilune.Sample
function st:leave(tid, e) end

--- The rows, as of `latency`: `for state, comm, s in stays:each() do … s.total … end`.
---@return fun(): ...
function st:each() end

--- The states that tasks are in at a time, mostly `now()`: `for tid, stay in stays:still(now()) do … stay.delay … end`. It only
--- looks: their time is in no row of the table, which has what ended. What `stay` gives is good until the next turn.
---@param time number nanoseconds of the run
---@return fun(): integer?, perilune.State?
function st:still(time) end
