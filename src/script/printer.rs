//! The word `printer`: Lua that prints an event in place of the runtime, for every monitor.
//!
//! `printer("sys:name", function(e) … return text end)` stands in `printers/*.lua` on the search path, in a
//! `--plugin FILE`, or in a monitor. Of several for one event the nearest to the user counts: a plugin's before that of a
//! monitor of their own, that before the search path's, and that before a bundled monitor's; of one origin the last. A file of the search path that does not
//! load is left out with a warning, since it must not keep every monitor from running; a plugin was asked for, so
//! it is an error.
//!
//! A printer runs in the sandbox for each event that is printed, never for one that is only counted. When it fails the event is
//! printed as if it had none, and after [`ERRORS_PER_HANDLER`] failures it is switched off.

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
use super::leaf::Shared;
use super::state::State;
use crate::base::draw::Level;

/// Printers by event, and whose file is being run.
#[derive(Default)]
pub struct Printers {
    by_event: BTreeMap<String, (Rank, Function)>,
    loading: Rank,
}

/// Who says how an event prints; the greater counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// A monitor that ships with the runtime.
    Bundled,
    /// A file of the search path.
    Site,
    /// A monitor of the user's own, or what is typed.
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

    /// Those that come now are of a monitor's `init`; of one that ships with the runtime they count least.
    pub(super) fn come_with(&mut self, is_bundled: bool) {
        self.loading = if is_bundled { Rank::Bundled } else { Rank::Monitor };
    }

    fn of(&self, event: &str) -> Option<&Function> {
        self.by_event.get(event).map(|(_, function)| function)
    }

    fn of_rank(&self, rank: Rank) -> usize {
        self.by_event.values().filter(|(of, _)| *of == rank).count()
    }
}

impl Host {
    /// Runs the files of the search path's `printers/`, then the plugins; gives what is to be said about them.
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
            if let Err(why) = self.run_printers(library, &script, Rank::Site) {
                warnings.push(format!("{why:#}; skipped"));
            }
        }
        for path in plugins {
            let script = library.at_path(path).context("--plugin")?;
            let before = self.state.borrow().printers.of_rank(Rank::Plugin);
            self.run_printers(library, &script, Rank::Plugin)?;
            if self.state.borrow().printers.of_rank(Rank::Plugin) == before {
                warnings.push(format!("--plugin {}: adds no printer", path.display()));
            }
        }
        Ok(warnings)
    }

    fn run_printers(&self, library: &Library, script: &Script, rank: Rank) -> anyhow::Result<()> {
        self.state.borrow_mut().printers.loading = rank;
        let run = || self.vm.script(&script.chunk_name(), &script.text);
        let ran = self.vm.searching(library, script, || self.guard.run(Phase::Load, run));
        self.state.borrow_mut().printers.loading = Rank::default();
        ran?;
        Ok(())
    }
}

/// The word itself.
pub(super) fn word(lua: &Lua, state: &Rc<RefCell<State>>) -> mlua::Result<Function> {
    let state = state.clone();
    lua.create_function(move |_, (event, function): (String, Function)| {
        let named =
            !event.is_empty() && !event.contains(|c: char| c.is_whitespace() || "*?[,".contains(c));
        if !named {
            let why = format!(
                "'{event}' is no event's name: printer(\"sys:name\", function(e) … return text end)"
            );
            return Err(mlua::Error::runtime(why));
        }
        let mut state = state.borrow_mut();
        if state.evsels.borrow().sealed {
            let why =
                "printers are chosen as the run begins; call printer in the file itself or in init";
            return Err(mlua::Error::runtime(why));
        }
        state.printers.add(event, function);
        Ok(())
    })
}

/// Installs the printers of the events of `new` roles; `failed` is [`failing`].
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

/// What is called with a printer that failed: says so and why, and whether to switch it off.
pub(super) fn failing(
    lua: &Lua,
    shared: &Shared,
    count_error: impl Fn() + 'static,
) -> mlua::Result<Function> {
    let (shared, failures) = (shared.clone(), RefCell::new(BTreeMap::<usize, u64>::new()));
    lua.create_function(move |_, (role, why): (usize, mlua::LuaString)| {
        count_error();
        let mut failures = failures.borrow_mut();
        let count = failures.entry(role).or_insert(0);
        *count += 1;
        let fault = describe_text(&why.to_string_lossy());
        // The way there is the same each time; once is enough.
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
