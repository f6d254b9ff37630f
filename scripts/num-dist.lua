--- Distribution of a number: a field of an event, or an expression over its fields.
-- num= is the number, key= or -k splits by another value. Buckets are powers of two, or with
-- --linear MIN,STEP,MAX of equal width. The table has the exact count, minimum and maximum, and the
-- total, which is rounded from 2^53 on; percentiles are within 2 % up to 1.7e13: greater numbers
-- count as that one there, and as `clamped`. Negative numbers are in the histogram only, and the
-- coverage counts them as `disordered`. A difference of unsigned fields does not get negative, as
-- in C, but very large: write (long)count-200. The kernel measures where it can, without records;
-- --where user measures from records.
--   perilune num-dist -e sched:sched_stat_runtime//num=runtime/
--   perilune num-dist -e 'net:netif_receive_skb//num=len/key=name/' -i 1000
--   perilune num-dist -e 'kmem:kmalloc//num="bytes_alloc-bytes_req"/' --linear 0,16,256
local flat, keys = require "flat", require "key"

local m = monitor {
  summary = "distribution of any field or expression of an event",
  group = "events", independent = true, options = {
    events { "event", short = "e", required = true, attrs = { num = expr, key = expr },
      help = "events: sys:name[/filter/num=EXPR/key=EXPR/…],…" },
    expr { "key", short = "k", help = "a distribution for each value of this expression" },
    text { "linear", value = "MIN,STEP,MAX", help = "buckets of equal width" },
  },
}

---@return function, perilune.HistSpec
local function scale(opt)
  if not opt.linear then return hist.log2, {} end
  local min, step, max = opt.linear:match "^(%-?%d+),(%d+),(%-?%d+)$"
  if not min then error("--linear: write three integers, MIN,STEP,MAX, such as 0,16,256", 0) end
  return hist.linear, { min = tonumber(min), step = tonumber(step), max = tonumber(max) }
end

function m.init(opt)
  local all = {} ---@type { ev: perilune.Evsel, key: string, number: string }[]
  local measured = {} ---@type perilune.MeasuredEvent[]
  for i, s in ipairs(flat.selectors(opt.event)) do
    if not s.attr.num then error(keys.without(s, "num=FIELD"), 0) end
    all[i] = { ev = evsel(s), key = s.attr.key or opt.key or "0", number = s.attr.num }
  end
  local _, as, differ = keys.column(all)
  local new, spec = scale(opt)
  spec[1], spec.title = { "event", event_name }, "number"
  spec[2] = (opt.key or all[1].key ~= "0") and { "key", as = as } --[[@as perilune.Column]]
  local spread = new(spec)
  local sums = latency { spec[1], spec[2], unit = "none", count = "values" }
  for i, one in ipairs(all) do
    measured[i] = { one.ev, value = one.number, rows = { tostring(one.ev.id), one.key } }
  end
  sums:measure(measured,
    { histogram = { spread, columns = { 1, 2 } }, mixed = differ and 2 or nil })
end
return m
