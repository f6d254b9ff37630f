--- Signals sent: sender, target (comm= and pid=) and result, with the names of signal and result.
-- -p, -t and a COMMAND select signals to these tasks from any sender. In JSON and CSV the sender is
-- `comm` and `pid`, the target `comm_` and `pid_`.
-- `already pending`: the target has not taken an earlier signal of this number. `lose info`: the
-- signal is delivered without its siginfo.
--   perilune signal
--   perilune signal --filter 'nginx*' -g
local m = monitor {
  summary = "signals generated: sender, target, result",
  group = "processes", order = true, independent = true, emits = {},
  options = {
    "call-graph", "flame-graph",
    text { "filter", value = "GLOBS",
      help = "only signals to tasks with these names: nginx*,!java-debug" },
  },
}

local RESULT = { [0] = "delivered", "ignored", "already pending", "overflow fail", "lose info" }
local generate ---@type perilune.Evsel

function m.init(opt)
  generate = evsel("signal:signal_generate", { stack = opt.call_graph, task = "pid" })
  printer("signal:signal_generate", function(e)
    return ("%s (%s, %s)"):format(e._text, signal_name(e.sig), RESULT[e.result] or e.result)
  end)
end

function m.filter(opt)
  if opt.filter then generate:matching("comm", opt.filter) end
end

function m.sample(e) emit(e) end
return m
