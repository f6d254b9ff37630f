--- Signals sent: by whom, to whom, with what result.
--   perilune signal
--   perilune signal --filter 'nginx*' -g
local m = monitor {
  summary = "signals generated: sender, target, result",
  order = true,
  options = {
    "call-graph", "flame-graph",
    text { "filter", value = "GLOBS", help = "only signals sent to tasks of these names: nginx,java*; not to those behind a !" },
  },
}

local generate ---@type perilune.Evsel

function m.init(opt)
  generate = evsel("signal:signal_generate", { stack = opt.call_graph })
end

function m.filter(opt)
  if opt.filter then generate:matching("comm", opt.filter) end
end

function m.sample(e) emit(e) end
return m
