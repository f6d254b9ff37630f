//! Test environment of the command line: a few monitors in Lua, a few events, and a runtime that
//! only records requests.

use std::{
    ffi::OsString,
    io::{self, Write},
    path::Path,
    rc::Rc,
};

use anyhow::Result;
use mlua::{Lua, Value};
use perilune::{
    cli::{
        main_with,
        runtime::{EventName, Runtime},
    },
    event::catalog::{Catalog, TracefsCatalog},
    run::request::RunRequest,
    script::load::monitor::{self, Monitor, ScriptSource},
    source::replay::Replay,
};

const SIGNAL: &str = r#"--- Signals sent, and to whom.
--   perilune signal --filter nginx -g
local m = monitor {
  summary = "signals generated for a task", group = "processes",
  options = { "call-graph", "flame-graph", text { "filter", value = "GLOB", help = "only signals sent to tasks whose name matches" } },
}
function m.init(opt) end
return m
"#;

const TRACE: &str = r#"--- Prints events as they happen.
local m = monitor {
  summary = "print events, their fields and stacks", group = "events",
  options = {
    events { "event", short = "e", required = true },
    number { "bias", default = -1.5, help = "a number" },
    flag { "short", short = "S" },
    "call-graph",
  },
}
function m.init() end
return m
"#;

/// One option of each kind, with the units of the pages that declare them.
const UNITS: &str = r#"--- Units.
local m = monitor {
  every = "1s", order = true, pages = 3,
  options = {
    duration { "ms", unit = "ms" }, duration { "us", unit = "us", default = "20ms" }, duration { "ns" },
    percent { "share" }, size { "bytes" }, number { "count" }, choice { "impl", of = { "delay", "pair" }, default = "delay" },
    expr { "key", short = "k" }, event { "alloc" }, "freq", "detail", "guest",
    "exclude-user", "exclude-kernel", "exclude-guest",
  },
}
function m.init() end
return m
"#;

const TOP: &str = r#"--- Counts.
local m = monitor { summary = "count and sum events per key, sorted", group = "events",
  options = { events { "event", short = "e", required = true, groups = 1, attrs = { key = expr, ["top-by"] = expr, alias = text, untraced = flag } } } }
function m.init() end
return m
"#;

const RELATE: &str = r#"--- Relates.
local m = monitor { summary = "relate events by key", group = "events", options = { events { "event", short = "e", required = true, groups = "2..", attrs = { key = expr } } } }
function m.init() end
return m
"#;

const WHO_KILLS: &str = r#"--- Who sends signals that end a service.
--   perilune who-kills nginx
local m = monitor { summary = "who sends fatal signals", options = { "call-graph",
  text { "name", positional = true, required = true, value = "GLOB", help = "name of the victim" } } }
function m.init() end
return m
"#;

const SYSCALLS: &str = r#"--- Latency and failures of system calls, by call.
local m = monitor { summary = "latency and errors of system calls", order = true, group = "processes",
  options = { "perins", duration { "than", unit = "us", help = "print enter and exit of each longer call" } } }
function m.init() end
return m
"#;

const SCRIPTS: [(&str, &str, &str); 7] = [
    ("multi-trace", "bundled", RELATE),
    ("signal", "bundled", SIGNAL),
    ("syscalls", "bundled", SYSCALLS),
    ("top", "bundled", TOP),
    ("trace", "bundled", TRACE),
    ("units", "/etc/perilune/units.lua", UNITS),
    ("who-kills", "/etc/perilune/who-kills.lua", WHO_KILLS),
];

/// A runtime that records the requested run instead of starting it.
pub(crate) struct Bench {
    pub(crate) lua: Lua,
    pub(crate) scripts: Vec<(String, String, String)>,
    pub(crate) ran: Vec<RunRequest>,
}

impl Bench {
    pub(crate) fn new() -> Bench {
        let own = |s: &str| s.to_owned();
        Bench {
            lua: Lua::new(),
            scripts: SCRIPTS.iter().map(|(n, o, t)| (own(n), own(o), own(t))).collect(),
            ran: Vec::new(),
        }
    }

    /// Returns a bench with one more script.
    pub(crate) fn with(name: &str, text: &str) -> Bench {
        let mut bench = Bench::new();
        bench.scripts.push((name.to_owned(), format!("./{name}"), text.to_owned()));
        bench
    }
}

impl Runtime for Bench {
    fn monitors(&mut self) -> Vec<String> {
        self.scripts.iter().map(|s| s.0.clone()).filter(|n| !n.ends_with(".lua")).collect()
    }

    fn load(&mut self, name: &str) -> Result<Option<Monitor>> {
        let Some((name, origin, text)) = self.scripts.iter().find(|s| s.0 == name) else {
            return Ok(None);
        };
        let env = self.lua.globals();
        monitor::register(&self.lua, &env)?;
        let file = format!("={}", origin.rsplit('/').next().unwrap());
        let returned = self.lua.load(text.as_str()).set_name(file).eval::<Value>();
        let returned = returned.map_err(|e| anyhow::anyhow!(innermost(&e)))?;
        let taken = perilune::cli::run_options::reserved();
        Ok(Some(Monitor::load(ScriptSource { name, origin, text }, &returned, &taken)?))
    }

    fn events(&mut self) -> Result<Vec<EventName>> {
        let event = |name: &str, alias: Option<&str>, category| EventName {
            name: name.to_owned(),
            aliases: alias.map(str::to_owned).into_iter().collect(),
            category,
            unavailable: None,
        };
        Ok(vec![
            event("cpu-cycles", Some("cycles"), "hardware"),
            event("context-switches", Some("cs"), "software"),
            event("sched:sched_switch", None, "tracepoint"),
            event("sched:sched_wakeup", None, "tracepoint"),
            event("signal:signal_generate", None, "tracepoint"),
        ])
    }

    fn catalog(&mut self, replay: Option<&Path>) -> Result<Rc<dyn Catalog>> {
        if let Some(path) = replay {
            return Ok(Rc::new(Replay::open(path)?));
        }
        let tracepoints = self.events()?.into_iter().filter(|e| e.category == "tracepoint");
        let names: Vec<(String, String)> = tracepoints
            .filter_map(|e| e.name.split_once(':').map(|(s, n)| (s.to_owned(), n.to_owned())))
            .collect();
        let listed = names.clone();
        let read = move |sys: &str, name: &str| {
            let known = names.iter().any(|(s, n)| (s.as_str(), n.as_str()) == (sys, name));
            if known { Ok(format(name)) } else { Err(io::ErrorKind::NotFound.into()) }
        };
        Ok(Rc::new(TracefsCatalog::new(Box::new(move || Ok(listed.clone())), Box::new(read))))
    }

    fn load_text(&mut self, script: &perilune::script::load::library::Script) -> Result<Monitor> {
        let own = (script.name.clone(), script.name.clone(), script.text.clone());
        self.scripts.push(own);
        Ok(self.load(&script.name)?.expect("it was just put there"))
    }

    fn session(&mut self, request: RunRequest, _: Option<String>) -> Result<u8> {
        self.run(request)
    }

    fn run(&mut self, request: RunRequest) -> Result<u8> {
        self.ran.push(request);
        Ok(0)
    }
}

/// Returns the format of an event: the fields of a switch for `sched_switch`, one number for any
/// other.
fn format(name: &str) -> String {
    let fields = match name {
        "sched_switch" => {
            "\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
             \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
             \tfield:unsigned long prev_state;\toffset:32;\tsize:8;\tsigned:0;\n\n\
             print fmt: \"%s\", __print_flags(REC->prev_state, \"|\", { 0x1, \"S\" }, { 0x2, \"D\" \
             })\n"
        }
        _ => "\tfield:int pid;\toffset:8;\tsize:4;\tsigned:1;\n\nprint fmt: \"%d\", REC->pid\n",
    };
    format!(
        "name: {name}\nID: 7\nformat:\n\
         \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
         \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n{fields}"
    )
}

/// Returns the original error message, without tracebacks.
pub(crate) fn innermost(error: &mlua::Error) -> String {
    match error {
        mlua::Error::CallbackError { cause, .. } => innermost(cause),
        mlua::Error::RuntimeError(text) => text.lines().next().unwrap_or_default().to_owned(),
        other => other.to_string(),
    }
}

/// Output and exit code of a call.
#[derive(Debug)]
pub(crate) struct Called {
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) code: u8,
    pub(crate) ran: Option<RunRequest>,
}

/// Runs `perilune WORDS…` on a bench.
pub(crate) fn call_on(mut bench: Bench, words: &[&str]) -> Called {
    let argv: Vec<OsString> = std::iter::once(&"perilune").chain(words).map(Into::into).collect();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = main_with(&argv, &mut bench, &mut out, &mut err);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Called { out: text(out), err: text(err), code, ran: bench.ran.pop() }
}

/// Runs `perilune WORDS…` on a new bench.
pub(crate) fn call(words: &[&str]) -> Called {
    call_on(Bench::new(), words)
}

/// Returns the request that `perilune WORDS…` runs.
pub(crate) fn request(words: &[&str]) -> RunRequest {
    let called = call(words);
    called.ran.unwrap_or_else(|| panic!("{words:?}: {}", called.err))
}

/// Returns the error line of `perilune WORDS…`, which must fail as a usage error and print nothing
/// else.
pub(crate) fn refused(words: &[&str]) -> String {
    let called = call(words);
    assert_eq!((called.code, called.out.as_str()), (2, ""), "{words:?}: {}", called.err);
    assert_eq!(called.err.lines().count(), 1, "{}", called.err);
    called.err.trim_end().to_owned()
}

/// A stdout whose reader has closed.
pub(crate) struct ClosedPipe;

impl Write for ClosedPipe {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::BrokenPipe.into())
    }
}
