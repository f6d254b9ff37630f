//! Function `printer`: Lua code that formats an event in place of the runtime, for every monitor.
//!
//! `printer("sys:name", function(e) … return text end)` is called in `printers/*.lua` on the search
//! path, in a `--plugin FILE`, or in a monitor. If several exist for one event, the precedence is:
//! plugin, a monitor of the user, search path, bundled monitor; of several with the same origin,
//! the last. A file on the search path that does not load is skipped with a warning, because it
//! must not keep every monitor from running; a plugin was requested explicitly, so there it is an
//! error.
//!
//! A printer runs in the sandbox for each event that is printed, never for one that is only
//! counted. When it fails, the event is printed as if it had none; after [`ERRORS_PER_HANDLER`]
//! failures it is switched off.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;

use anyhow::Context as _;
use mlua::{Function, Lua, Table};

use super::bundle::{Library, Script};
use super::evsel::Role;
use super::fault::describe_text;
use super::guard::Phase;
use super::host::{ERRORS_PER_HANDLER, Host};
use super::leaf::SharedContext;
use super::state::ScriptState;
use crate::base::draw::Level;

/// Printers by event, and the rank of the file that is being run.
#[derive(Default)]
pub struct Printers {
    by_event: BTreeMap<String, (PrinterRank, Function)>,
    loading: PrinterRank,
}

/// Origin of a printer; the greater one takes precedence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum PrinterRank {
    /// A monitor that ships with the runtime.
    Bundled,
    /// A file of the search path.
    Site,
    /// A monitor of the user, or typed text.
    #[default]
    Monitor,
    /// A file that the user named.
    Plugin,
}

impl Printers {
    fn add(&mut self, event: String, function: Function) {
        let rank = self.loading;
        if self.by_event.get(&event).is_none_or(|(before, _)| *before <= rank) {
            self.by_event.insert(event, (rank, function));
        }
    }

    /// Sets the rank of the printers that a monitor's `init` adds from now on; those of a bundled
    /// monitor rank lowest.
    pub(super) fn come_with(&mut self, is_bundled: bool) {
        self.loading = if is_bundled { PrinterRank::Bundled } else { PrinterRank::Monitor };
    }

    fn of(&self, event: &str) -> Option<&Function> {
        self.by_event.get(event).map(|(_, function)| function)
    }

    fn of_rank(&self, rank: PrinterRank) -> usize {
        self.by_event.values().filter(|(of, _)| *of == rank).count()
    }
}

impl Host {
    /// Runs the files in `printers/` of the search path, then the plugins. Returns warnings about
    /// them.
    ///
    /// # Errors
    /// A plugin that cannot be read or does not load.
    pub fn load_printers(
        &self,
        library: &Library,
        plugins: &[PathBuf],
    ) -> anyhow::Result<Vec<String>> {
        let mut warnings = Vec::new();
        for script in library.all_in("printers") {
            if let Err(why) = self.run_printers(library, &script, PrinterRank::Site) {
                warnings.push(format!("{why:#}; skipped"));
            }
        }
        for path in plugins {
            let script = library.at_path(path).context("--plugin")?;
            let before = self.state.borrow().printers.of_rank(PrinterRank::Plugin);
            self.run_printers(library, &script, PrinterRank::Plugin)?;
            if self.state.borrow().printers.of_rank(PrinterRank::Plugin) == before {
                warnings.push(format!("--plugin {}: adds no printer", path.display()));
            }
        }
        Ok(warnings)
    }

    fn run_printers(
        &self,
        library: &Library,
        script: &Script,
        rank: PrinterRank,
    ) -> anyhow::Result<()> {
        self.state.borrow_mut().printers.loading = rank;
        let run = || self.vm.script(&script.chunk_name(), &script.text);
        let ran = self.vm.searching(library, script, || self.guard.run(Phase::Load, run));
        self.state.borrow_mut().printers.loading = PrinterRank::default();
        ran?;
        Ok(())
    }
}

/// Creates the function `printer`.
///
/// # Errors
/// Lua is out of memory.
pub(super) fn function(lua: &Lua, state: &Rc<RefCell<ScriptState>>) -> mlua::Result<Function> {
    let state = state.clone();
    lua.create_function(move |_, (event, function): (String, Function)| {
        let named =
            !event.is_empty() && !event.contains(|c: char| c.is_whitespace() || "*?[,".contains(c));
        if !named {
            let why = format!(
                "'{event}' is not an event name: printer(\"sys:name\", function(e) … return text \
                 end)"
            );
            return Err(mlua::Error::runtime(why));
        }
        let mut state = state.borrow_mut();
        if state.evsels.borrow().sealed {
            let why =
                "printers are selected when the run begins; call printer at top level or in init";
            return Err(mlua::Error::runtime(why));
        }
        state.printers.add(event, function);
        Ok(())
    })
}

/// Installs the printers for the events of the `new` roles; `failed` is [`failing`].
///
/// # Errors
/// The runtime's own Lua failed.
pub(super) fn install(
    exports: &Table,
    printers: &Printers,
    roles: &[Role],
    new: impl Iterator<Item = usize>,
    failed: &Function,
) -> mlua::Result<()> {
    let print_by: Function = exports.get("print_by")?;
    for role in new {
        let printer = roles.get(role).and_then(|r| printers.of(&r.event.name));
        if let Some(printer) = printer {
            print_by.call::<()>((role, printer, failed))?;
        }
    }
    Ok(())
}

/// Creates the function that is called when a printer fails: it reports the error, and returns
/// whether to switch the printer off.
///
/// # Errors
/// Lua is out of memory.
pub(super) fn failing(
    lua: &Lua,
    shared: &SharedContext,
    count_error: impl Fn() + 'static,
) -> mlua::Result<Function> {
    let (shared, failures) = (shared.clone(), RefCell::new(BTreeMap::<usize, u64>::new()));
    lua.create_function(move |_, (role, why): (usize, mlua::LuaString)| {
        count_error();
        let mut failures = failures.borrow_mut();
        let count = failures.entry(role).or_insert(0);
        *count += 1;
        let fault = describe_text(&why.to_string_lossy());
        // The traceback is the same each time; print it once.
        let text = if *count == 1 { fault.to_string() } else { fault.message };
        let off = *count >= ERRORS_PER_HANDLER;
        shared.with(|context| {
            context.note(Level::Error, &text);
            if off {
                let name = context.roles.get(role).map_or("", |e| e.name.as_str()).to_owned();
                let text = format!("{name}: its printer failed {count} times and is switched off");
                context.note(Level::Error, &text);
            }
        });
        Ok(off)
    })
}
