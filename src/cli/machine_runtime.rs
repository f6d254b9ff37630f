//! The [`Runtime`] on this machine: scripts from the library, events from the kernel, and runs.

use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::ExitStatus;
use std::rc::Rc;
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow, bail};

use super::command::{self, Parsed};
use super::runtime::{Bundled, EventName, Runtime};
use super::sources::{CatalogWithSources, sources};
use super::{BESIDE_A_COMMAND, OptionError, repl, run_options};

use crate::event::catalog::Catalog;
use crate::event::kind::{Event, NAME_FAMILIES};
use crate::event::sampling::Sampling;
use crate::run::catalog::MachineCatalog;
use crate::run::request::RunRequest;
use crate::run::serve::ServedMonitor;
use crate::run::session::{self, Monitors};
use crate::run::{self, Outcome};
use crate::script::evsel::role::Role;
use crate::script::host::{Host, Rules, Setting};
use crate::script::load::library::{Library, Script, ScriptOrigin};
use crate::script::load::monitor::Monitor;
use crate::script::option::{OptionSpec, opt};
use crate::script::vm::guard::Failure;
use crate::source::open::try_open::{try_all, try_out};
use crate::source::replay::Replay;
use crate::sys::attr::{EVERY_TASK, PerfTarget};
use crate::sys::cpus::online_cpus;
use crate::sys::terminal::typeahead::Typeahead;
use crate::sys::tracefs::Tracefs;

/// The [`Runtime`] of this machine.
pub struct MachineRuntime {
    library: Library,
    host: Option<Host>,
    started: Instant,
    warnings: Vec<String>,
}

impl MachineRuntime {
    /// Creates a machine for a process that began at `started`, from which the time to the first
    /// event is measured.
    pub fn new(started: Instant) -> Self {
        MachineRuntime {
            library: Library::from_environment(),
            host: None,
            started,
            warnings: Vec::new(),
        }
    }

    /// Loads the script again with every library: this is only allowed after the command line has
    /// been parsed.
    fn load_unsafe(&mut self, request: &RunRequest) -> Result<Monitor> {
        let script = self.library.find(&request.called)?;
        self.host = None;
        let host = self.host.insert(Host::new(true)?);
        host.load(&script, &self.library, &run_options::reserved()).cloned()
    }

    /// Returns how several monitors are found and parsed in one host.
    fn beside(&self) -> Monitors {
        Monitors {
            library: self.library.clone(),
            taken: run_options::reserved(),
            parse: |monitor, name, words| match command::parse(monitor, name, words) {
                Ok(Parsed::Run(request)) => Ok(*request),
                Ok(_) => bail!("{name}: help works only on the command line; omit it"),
                Err(why) => Err(anyhow!("{why}")),
            },
        }
    }

    /// Removes the script's line from an error that a bundled monitor raises at its start: its
    /// cause is in the user's options. An error that any monitor raises about an option becomes a
    /// usage error.
    fn as_user_error(
        &self,
        called: &str,
        options: &[OptionSpec],
        why: anyhow::Error,
    ) -> anyhow::Error {
        let is_bundled =
            matches!(self.library.find(called), Ok(s) if s.origin == ScriptOrigin::Bundled);
        let Some(Failure::Script(error)) = why.downcast_ref() else { return why };
        let text = if is_bundled { error.without_place() } else { &error.message };
        if error.raised && options.iter().any(|option| option.is_subject_of(error.without_place()))
        {
            return anyhow::Error::new(OptionError(text.to_owned()));
        }
        if is_bundled && error.raised { anyhow!("{text}") } else { why }
    }
}

impl Runtime for MachineRuntime {
    fn monitors(&mut self) -> Vec<String> {
        self.library.all().into_iter().map(|script| script.name).collect()
    }

    fn load(&mut self, name: &str) -> Result<Option<Monitor>> {
        let Some(script) = self.library.look_up(name)? else { return Ok(None) };
        // A separate Lua state for each script, so that scripts do not affect each other, and
        // because only one is guarded at a time.
        self.host = None;
        let host = self.host.insert(Host::new(false)?);
        host.load(&script, &self.library, &run_options::reserved())
            .map(|monitor| Some(monitor.clone()))
    }

    fn check(&mut self, path: &str) -> Result<Option<String>> {
        let script = self.library.find(path)?;
        match Tracefs::find() {
            Ok(_) => Ok(begins(&script, &self.library, TriedTarget::EveryTask)?.not_looked_at),
            Err(why) => {
                Host::new(false)?.load(&script, &self.library, &run_options::reserved())?;
                Ok(Some(why.to_string()))
            }
        }
    }

    fn bundled(&mut self) -> Vec<Bundled> {
        let all =
            self.library.all().into_iter().filter(|script| script.origin == ScriptOrigin::Bundled);
        let mut tracepoints_open = false;
        all.map(|script| how_it_begins(&script, &self.library, &mut tracepoints_open)).collect()
    }

    fn take_warnings(&mut self) -> Vec<String> {
        [self.library.take_warnings(), std::mem::take(&mut self.warnings)].concat()
    }

    fn events(&mut self) -> Result<Vec<EventName>> {
        let catalog = MachineCatalog::default();
        let event = |name: String, aliases, category| {
            let unavailable = match category {
                "hardware" | "pmu" => catalog.describe(&name).ok().and_then(|e| why_refused(&e)),
                _ => None,
            };
            EventName { name, aliases, category, unavailable }
        };
        // A user who may not read tracefs can still use the other events.
        let tracepoints = tracepoints().unwrap_or_else(|why| {
            self.warnings.push(format!("tracepoints are not listed: {why:#}"));
            Vec::new()
        });
        let tracepoints = tracepoints
            .iter()
            .map(|(sys, name)| event(format!("{sys}:{name}"), Vec::new(), "tracepoint"));
        let counters = NAME_FAMILIES.iter().flat_map(|family| {
            family.names().map(|(name, aliases)| {
                event(
                    name,
                    aliases.iter().map(|&alias| alias.to_owned()).collect(),
                    family.category,
                )
            })
        });
        let of_pmus =
            MachineCatalog::pmu_events().into_iter().map(|name| event(name, Vec::new(), "pmu"));
        let events: Vec<EventName> = counters.chain(of_pmus).chain(tracepoints).collect();
        // Only one Lua state is guarded at a time.
        self.host = None;
        let sources = sources(&self.library).into_iter().map(|source| EventName {
            name: source.name.clone(),
            aliases: Vec::new(),
            category: "monitor",
            unavailable: None,
        });
        Ok(events.into_iter().chain(sources).collect())
    }

    fn catalog(&mut self, replay: Option<&Path>) -> Result<Rc<dyn Catalog>> {
        let events: Rc<dyn Catalog> = match replay {
            Some(path) => Rc::new(Replay::open(path)?),
            None => Rc::new(MachineCatalog::default()),
        };
        // The catalog may load monitors, and only one Lua state is guarded at a time.
        self.host = None;
        Ok(Rc::new(CatalogWithSources::new(events, self.library.clone())))
    }

    fn load_text(&mut self, script: &Script) -> Result<Monitor> {
        self.host = None;
        let host = self.host.insert(Host::new(false)?);
        let monitor = host.load(script, &self.library, &run_options::reserved()).cloned()?;
        if host.coverage(None).undefined > 0 {
            bail!(
                "C leaves this value undefined: it divides by zero, or shifts by a negative count \
                 or by the width of the type or more; a long has 64 bits: 1L << 40"
            );
        }
        Ok(monitor)
    }

    fn session(&mut self, request: RunRequest, begin: Option<String>) -> Result<u8> {
        let begin = match &begin {
            Some(path) => {
                let script = self.library.at_path(Path::new(path))?;
                Some((script.chunk_name(), script.text))
            }
            None => None,
        };
        // Only one Lua state is guarded at a time.
        self.host = None;
        let host = Host::new(request.options.allow_unsafe)?;
        let printers = host.load_printers(&self.library, &request.options.plugins)?;
        let request = RunRequest { notes: [request.notes.clone(), printers].concat(), ..request };
        let (console, outlet) = repl::console(request.options.allow_unsafe)?;
        let typeahead = outlet.terminal.then(Typeahead::begin).flatten();
        let monitors = self.beside();
        let ended = session::run(host, &request, monitors, begin, console, outlet);
        // The reading thread may still be using the terminal.
        drop(typeahead);
        Ok(match ended? {
            Outcome::Done => 0,
            _ => 1,
        })
    }

    fn serve(&mut self, request: RunRequest, monitors: &[ServedMonitor]) -> Result<u8> {
        // Only one Lua state is guarded at a time.
        self.host = None;
        let host = Host::new(false)?;
        let printers = host.load_printers(&self.library, &request.options.plugins)?;
        let warnings = self.library.take_warnings();
        let request = RunRequest { notes: [request.notes, warnings, printers].concat(), ..request };
        let ended = run::serve::run(host, &request, &self.beside(), monitors, self.started)?;
        Ok(if ended == Outcome::Done { 0 } else { 1 })
    }

    fn run(&mut self, request: RunRequest) -> Result<u8> {
        let mut request = request;
        if request.options.allow_unsafe {
            request.monitor = self.load_unsafe(&request)?;
        }
        let host = self.host.take().context("no monitor is loaded")?;
        let printers = host.load_printers(&self.library, &request.options.plugins)?;
        let warnings = self.library.take_warnings();
        let request = RunRequest { notes: [request.notes, warnings, printers].concat(), ..request };
        let options = [&request.monitor.options[..], &run_options::options()].concat();
        let ended = run::run(host, &request, self.started)
            .map_err(|why| self.as_user_error(&request.called, &options, why))?;
        Ok(match ended {
            Outcome::Done => 0,
            Outcome::ScriptErrors if request.options.workload.is_empty() => 1,
            Outcome::ScriptErrors => BESIDE_A_COMMAND,
            Outcome::Workload(status) => exit_code(status),
            Outcome::NoWorkload(ErrorKind::NotFound) => 127,
            Outcome::NoWorkload(_) => 126,
        })
    }
}

/// Returns a command's exit code as in a shell: its own, or 128 and the signal that ended it.
fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(BESIDE_A_COMMAND)
}

/// The result of a script that was started without options.
#[derive(Default)]
struct Begun {
    /// Why its events must be named first, if so.
    not_looked_at: Option<String>,
    /// Events used as a fallback for others.
    fallbacks: Vec<String>,
    roles: Vec<Role>,
    /// Whether it cannot watch single tasks.
    whole_cpus: bool,
}

impl Begun {
    /// Opens its events for a moment. Returns the fallbacks.
    ///
    /// # Errors
    /// The monitor or one of its events cannot watch the target.
    fn opens(self, target: TriedTarget, tracepoints_open: &mut bool) -> Result<Vec<String>> {
        let needs_cpus = |role: &Role| role.event.needs_whole_cpus(&role.sampling);
        if target == TriedTarget::OwnTask && (self.whole_cpus || self.roles.iter().any(needs_cpus))
        {
            bail!("it watches whole CPUs");
        }
        let events = self.roles.iter().map(|role| (&role.event, &role.sampling));
        try_all(events, target.of_perf(), tracepoints_open)?;
        Ok(self.fallbacks)
    }
}

/// Target on which a script is tried.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TriedTarget {
    /// Every task, on the first CPU.
    EveryTask,
    /// This process, as a user's own COMMAND.
    OwnTask,
}

impl TriedTarget {
    fn of_perf(self) -> PerfTarget {
        let cpu = online_cpus().first().map_or(0, |cpu| *cpu as i32);
        PerfTarget { pid: if self == TriedTarget::OwnTask { 0 } else { EVERY_TASK }, cpu }
    }
}

/// Tries how a bundled monitor would begin: watching every task or, if that is refused, a COMMAND
/// of this user.
fn how_it_begins(script: &Script, library: &Library, tracepoints_open: &mut bool) -> Bundled {
    let named = Bundled { name: script.name.clone(), ..Bundled::default() };
    let text = |why: anyhow::Error| match why.downcast_ref() {
        Some(Failure::Script(error)) => error.without_place().to_string(),
        _ => format!("{why:#}"),
    };
    let mut opens = |target| {
        begins(script, library, target).and_then(|begun| begun.opens(target, tracepoints_open))
    };
    match opens(TriedTarget::EveryTask) {
        Ok(fallbacks) => Bundled { fallbacks, ..named },
        Err(why) => match opens(TriedTarget::OwnTask) {
            Ok(fallbacks) => Bundled { fallbacks, only_own: Some(text(why)), ..named },
            Err(_) => Bundled { lacks: Some(text(why)), ..named },
        },
    }
}

/// Lets a script declare its events without options. An event is only opened, for a moment, if
/// there are alternatives to it.
fn begins(script: &Script, library: &Library, target: TriedTarget) -> Result<Begun> {
    let mut host = Host::new(false)?;
    let monitor = host.load(script, library, &run_options::reserved())?.clone();
    // A script that needs events as an argument works with the existing ones.
    let request = match command::parse(&monitor, &script.name, &[]) {
        Ok(Parsed::Run(request)) => request,
        Ok(_) => return Ok(Begun::default()),
        Err(why) => {
            return Ok(Begun { not_looked_at: Some(format!("{why:#}")), ..Begun::default() });
        }
    };
    let options = opt::table(host.lua(), &monitor.options, &request.values)?;
    let tried = target.of_perf();
    let setting = Setting {
        trial: Some(Rc::new(move |event, sampling| try_out(event, sampling, tried))),
        per_thread: target == TriedTarget::OwnTask,
        some_tasks: target == TriedTarget::OwnTask,
        ..Setting::of(Rc::new(MachineCatalog::default()))
    };
    host.begin(&options, &setting, Rules::default())?;
    let (fallbacks, roles) = (host.fallbacks(), host.roles());
    Ok(Begun { not_looked_at: None, fallbacks, roles, whole_cpus: monitor.whole_cpus })
}

/// Returns why this machine cannot count an event; None if it can, or if only this user may not.
fn why_refused(event: &Rc<Event>) -> Option<String> {
    let target = match event.kind().cpus() {
        Some([cpu, ..]) => PerfTarget { pid: EVERY_TASK, cpu: *cpu as i32 },
        _ => PerfTarget { pid: 0, cpu: -1 },
    };
    let counted = Sampling { count: true, ..Sampling::default() };
    let refusal = try_out(event, &counted, target).err().filter(|refusal| refusal.of_event)?;
    refusal.why.split(';').next().map(str::to_owned)
}

/// Returns all tracepoints as system and name.
fn tracepoints() -> Result<Vec<(String, String)>> {
    Tracefs::find()?.events().context("failed to list the tracepoints")
}
