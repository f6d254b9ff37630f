---@meta
--- What a monitor remembers between events. All of it is bounded; what the bound drops is counted and shown.
error "this file describes the API to editors and checkers; it cannot be required"

--- Names of the values that are kept, and how.
---@class perilune.PendingSpec
---@field [integer] string
---@field key? "tid"|"cpu"|"pointer"|"any" what the key is; a `"tid"` is forgotten when its task ends; Dflt: any
---@field keep? any keep the whole opening event, unless false or nil: `keep = opt.than`
---@field lost? "drop"|"keep" what becomes of open ones when events were lost; Dflt: drop
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
---@field event? perilune.Kept the opening event, with `keep`
---@field [string] any the values, by their names; may be assigned

--- Remembers the event's time and the values. What is open for the key is replaced, and counted as unmatched.
---
---     asleep:open(e.prev_pid, e, e.prev_state)
---@param key number|string
---@param e perilune.Record
---@param ... number|string
function p:open(key, e, ...) end

--- Forgets the key and returns what was remembered, or nil.
---
---     local s = asleep:close(e.pid, e)
---     if s then slept:add(s.delay, s.state) end
---@param key number|string
---@param e perilune.Record
---@return perilune.State?
function p:close(key, e) end

--- What is remembered, without forgetting it: `local s = inside:get(e._tid)`.
---@param key number|string
---@return perilune.State?
function p:get(key) end

--- Every open key: `for ptr, block in live:each() do … end`. Not in a handler.
---@return fun(): number|string, perilune.State
function p:each() end

--- How many are open: `live:len()`.
---@return integer
function p:len() end

--- A number for each CPU: `local last = per_cpu(0)`, then `last[e._cpu] = e._time`. "Never" is `-math.huge`: times start at 0.
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
