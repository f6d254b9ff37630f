--- Signals sent: by whom, to whom (comm= and pid=), with what result; behind each its name, and what the kernel calls the result.
-- `already pending`: the target has one of that number that it has not taken yet. `lose info`: it is delivered, without what comes with it.
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

local RESULT = { [0] = "delivered", "ignored", "already pending", "overflow fail", "lose info" }
local generate ---@type perilune.Evsel

function m.init(opt)
  generate = evsel("signal:signal_generate", { stack = opt.call_graph })
  printer("signal:signal_generate", function(e)
    return ("%s (%s, %s)"):format(e._text, signal_name(e.sig), RESULT[e.result] or e.result)
  end)
end

function m.filter(opt)
  if opt.filter then generate:matching("comm", opt.filter) end
end

function m.sample(e) emit(e) end
return m
