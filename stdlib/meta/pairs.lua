---@meta
--- Options of `latency:between` and `latency:measure`: events without a handler whose delays or
--- values are measured.
error "this file describes the API to editors and checkers; it cannot be required"

---@class perilune.MeasuredEvent
---@field [1] perilune.Evsel
---@field value? string its expression, if it differs from that of the options
---@field where? string an expression that is not 0 for the measured events
---@field rows? table<integer, string> its expressions of columns, by their index

---@class perilune.MeasureOptions
---@field value? string the expression of the value
---@field where? string an expression that is not 0 for the measured events
---@field rows? table<integer, string> an expression for each column, by its index
--- The values are also added to it, with these columns.
---@field histogram? { [1]: perilune.Hist, columns?: integer[] }
---@field mixed? integer the column in which integers of different types are

---@alias perilune.PairSide perilune.Evsel|perilune.PairEvent|perilune.PairEvent[]

---@class perilune.PairEvent
---@field [1] perilune.Evsel
---@field key? string|string[] its key, if it differs from that of the options
---@field same? string its expression for `same`
---@field where? string an expression that is not 0 for the events of the pair
---@field rows? table<integer, string> its expressions of columns, by their index
---@field once? boolean of a start: it does not replace an earlier one with the same key
---@field last? string of `drops`: an expression that is not 0 if the key is not used again

---@class perilune.PairOptions
--- The expression that is equal at both events; with `records`, also a list of several.
---@field key? string|string[]
---@field same? string an expression; a pair with different values is not added
--- An expression of the end for each column. A column that the end does not have is that of the
--- start: `{ begins, rows = { [2] = "vec" } }`.
---@field rows? table<integer, string>
---@field threads? boolean whether keys are threads, whose starts are dropped when they end
--- Events that drop the start of their key without a delay, after an end of the same event and
--- before a start. With `threads`, the events of one key must not happen on two CPUs at once.
---@field drops? perilune.PairSide
---@field longer? number nanoseconds; shorter delays and this one are not added
---@field age? number nanoseconds after which a start is dropped
--- The delays are also added to it, with these columns.
---@field histogram? { [1]: perilune.Hist, columns?: integer[] }
---@field counts? perilune.PairCount[]
---@field nested? string note for a run whose ends show that starts were replaced by nested ones
--- Replaces the handlers when records are read: returns `{ { ev, handler }, … }`. It is called with
--- the pending of the starts. The handlers must add the same delays as the kernel would.
---@field records? fun(open: perilune.Pending): table[]
--- Is called for each pair, after its delay was added, with the values of the columns. It needs
--- records. `keep` keeps the event of the start.
---@field pair? fun(start: perilune.State, e: perilune.Sample, delay: number, ...: any)
---@field needs? string why records are needed, as -v prints it; only with `records` or `pair`
---@field keep? boolean

--- Counts some of the events: starts, ends without a start (`single`), or ends of recorded pairs.
---@class perilune.PairCount
---@field [1] perilune.Kv without sums
---@field at "start"|"single"|"pair"
---@field where? string an expression that is not 0 for the counted events
---@field key string[] an expression for each column of the key
