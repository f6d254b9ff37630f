//! From a batch to handlers: the views and drivers of a run, what a failing event leads to, and what is drawn.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use anyhow::{Context as _, bail};
use mlua::{Function, Lua, Table, Value};

use super::aggregate::Aggregates;
use super::call::{explained_error, place_of};
use super::evsel::Role;
use super::fault::describe_text;
use super::guard::{Failure, Guard, Phase};
use super::host::ERRORS_PER_HANDLER;
use super::leaf::{Shared, raw_of};
use super::predicate::predicate;
use super::printer::{self, Printers};
use super::table::Made;
use super::view;
use crate::base::draw::{Level, Report};
use crate::base::slot::Slot;
use crate::event::catalog::What;
use crate::source::Batch;
use crate::source::batch::Addresses;
use crate::source::counts::Count;

/// Loads the drivers over a batch's arrays, with the function that they call with a failing event.
pub(super) type LoadDriver = Box<dyn Fn(Addresses, Function) -> mlua::Result<Table>>;

/// What the trusted preludes made.
pub(super) struct Trusted {
    /// What they give each other.
    pub(super) exports: Table,
    /// view.lua's.
    pub(super) views: Table,
    /// Makes drivers.
    pub(super) load_driver: LoadDriver,
}

/// The Lua side of a run: the words' tables, the views, the drivers, and the count of errors.
pub(super) struct Dispatch {
    lua: Lua,
    exports: Table,
    views: Table,
    load_driver: LoadDriver,
    shared: Shared,
    handlers: Vec<Handler>,
    driver: Option<Table>,
    walk: Option<Function>,
    errors: Rc<RefCell<Errors>>,
    per_thread: bool,
    /// Whether predicates stand before handlers, and the drivers count for `-N` what gets through.
    chooses: bool,
}

/// What handles the events of a role.
struct Handler {
    role: usize,
    function: Function,
    view: Table,
    /// `file.lua:31`, where it begins: asked of Lua before its memory can be full.
    place: Option<String>,
}

/// Why a walk ended early.
pub(super) struct WalkError {
    /// What happened.
    pub why: String,
    /// Where to go on behind the handler that was stopped; `None` where nothing is known of the rest.
    pub rest: Option<u64>,
}

/// Errors of handlers, in all and by role, and the roles whose handlers they switched off.
#[derive(Default)]
struct Errors {
    all: u64,
    by_role: Vec<u64>,
    off: BTreeSet<usize>,
}

impl Dispatch {
    /// A dispatch over loaded preludes, without views yet.
    pub(super) fn new(lua: Lua, trusted: Trusted, shared: Shared) -> Self {
        let errors = Rc::default();
        let Trusted { exports, views, load_driver } = trusted;
        Dispatch {
            lua,
            exports,
            views,
            load_driver,
            shared,
            handlers: Vec::new(),
            driver: None,
            walk: None,
            errors,
            per_thread: false,
            chooses: false,
        }
    }

    /// Makes a view for every role, and finds its handler (the evsel's own, or `sample`) and its event's printer.
    pub(super) fn make_views(
        &mut self,
        roles: &[Role],
        sample: Option<&Function>,
        printers: &Printers,
        per_thread: bool,
    ) -> anyhow::Result<()> {
        self.per_thread = per_thread;
        let event_of: Function = self.exports.get("event_of")?;
        let make: Function = self.views.get("make")?;
        for entry in self.exports.get::<Table>("evsels")?.sequence_values::<Table>() {
            let entry = entry?;
            if entry.get("count")? {
                continue;
            }
            let own: Option<Function> = entry.get("handler")?;
            for (position, index) in entry.get::<Vec<usize>>("roles")?.into_iter().enumerate() {
                let event = &roles.get(index).context("an evsel has no such role")?.event;
                let Some(handler) = own.as_ref().or(sample) else {
                    bail!(
                        "nothing handles {}: give its evsel a handler, or write m.sample(e)",
                        event.name
                    );
                };
                let getters = match &event.what {
                    What::Tracepoint { format } => view::getters(format),
                    What::Counter(_) => "return {}".to_owned(),
                };
                let object: Table = event_of.call((&entry, position + 1))?;
                let view = make.call((index, event.name.as_str(), getters, object, per_thread))?;
                self.handlers.push(Handler {
                    role: index,
                    function: handler.clone(),
                    view,
                    place: place_of(handler),
                });
            }
        }
        let errors = self.errors.clone();
        let failed =
            printer::failing(&self.lua, &self.shared, move || errors.borrow_mut().all += 1)?;
        let views = self.handlers.iter().map(|handler| (handler.role, &handler.view));
        Ok(printer::install(&self.exports, printers, roles, views, &failed)?)
    }

    /// Looks for fields that handlers read and their events do not have, in all of the handlers' code: see `prelude/fields.lua`.
    ///
    /// # Errors
    /// The first, with its line and the nearest name.
    pub(super) fn check_fields(&self) -> anyhow::Result<()> {
        let missing: Function = self.exports.get("missing_field")?;
        for entry in self.exports.get::<Table>("evsels")?.sequence_values::<Table>() {
            let entry = entry?;
            let roles: Vec<usize> = entry.get("roles")?;
            let Some(handler) = self.handlers.iter().find(|h| roles.contains(&h.role)) else {
                continue;
            };
            let event: Table = entry.get("ev")?;
            let name: String = event.raw_get("name")?;
            let event = (roles.len() == 1).then_some(event);
            let why = missing.call::<Option<String>>((&handler.function, name, roles, event))?;
            why.map_or(Ok(()), |why| Err(anyhow::Error::msg(why)))?;
        }
        Ok(())
    }

    /// Puts the handlers on their drivers, over a batch's arrays, behind the predicates of their roles.
    pub(super) fn attach(&mut self, addresses: Addresses, roles: &[Role]) -> anyhow::Result<()> {
        let driver = (self.load_driver)(addresses, self.failing(addresses)?)?;
        let set: Function = driver.get("set")?;
        let choose_by: Function = self.exports.get("choose_by")?;
        self.chooses = roles.iter().any(|role| !role.rest.is_empty());
        for handler in &self.handlers {
            let met = match roles.get(handler.role) {
                Some(role) => predicate(&self.exports, &self.shared, role)?,
                None => None,
            };
            let Handler { role, function, view, .. } = handler;
            choose_by.call::<()>((*role, met.clone()))?;
            set.call::<()>((*role, function, view, met, self.chooses))?;
        }
        self.walk = Some(driver.get("walk")?);
        self.driver = Some(driver);
        Ok(())
    }

    /// Walks the batch's `runs` runs from position `from` on; gives the position behind the last event handed over: the batch's
    /// end, or less after a `stop`.
    ///
    /// # Errors
    /// The guard stopped a handler, which is then switched off, or the runtime's own Lua failed. No view is alive any more.
    pub(super) fn walk(
        &self,
        guard: &Guard,
        batch: &Batch,
        runs: usize,
        from: u64,
    ) -> Result<u64, WalkError> {
        let Some(walk) = &self.walk else { return Ok(from) };
        let (role, last) = (batch.first_role(), batch.len() - 1);
        let why = match guard.run(Phase::Handler, || walk.call::<u64>((runs, from, role, last))) {
            Ok(seen) => return Ok(seen),
            Err(why) => why,
        };
        let stood = self.views.get::<Function>("bury").and_then(|bury| bury.call(()));
        let (role, rest, printing): (Option<usize>, Option<u64>, Option<bool>) =
            stood.unwrap_or_default();
        if let (Failure::Stopped(_), Some(role)) = (&why, role) {
            // What loops once loops again, a second of CPU each time.
            let what = if printing == Some(true) {
                self.unprint(role);
                "printer"
            } else {
                self.clear(role);
                "handler"
            };
            let why = format!("{why}; the {what} of {} is switched off", self.name_of(role));
            return Err(WalkError { why, rest });
        }
        Err(WalkError { why: why.to_string(), rest: None })
    }

    fn unprint(&self, role: usize) {
        if let Ok(unprint) = self.exports.get::<Function>("unprint") {
            // As in `clear`.
            let _ = unprint.call::<()>(role);
        }
    }

    fn clear(&self, role: usize) {
        self.errors.borrow_mut().off.insert(role);
        if let Some(clear) = self.driver.as_ref().and_then(|d| d.get::<Function>("clear").ok()) {
            // It only stores; a failure would be a failure to allocate, and nothing is allocated.
            let _ = clear.call::<()>(role);
        }
    }

    fn name_of(&self, role: usize) -> String {
        self.shared
            .with(|context| context.roles.get(role).map(|e| e.name.clone()))
            .unwrap_or_default()
    }

    /// Prints the windows of the history whose last event came before `time`.
    ///
    /// # Errors
    /// A condition of one failed, or the guard stopped it. No view is alive any more.
    pub(super) fn print_waiting(&self, guard: &Guard, time: f64) -> Result<(), Failure> {
        let print = || self.exports.get::<Function>("print_waiting")?.call::<()>(time);
        guard.run(Phase::Handler, print).inspect_err(|_| {
            // It only stores; a failure would be a failure to allocate, and nothing is allocated.
            let _ = self.views.get::<Function>("bury").and_then(|bury| bury.call::<()>(()));
        })
    }

    /// Takes every handler away.
    pub(super) fn clear_all(&self) {
        if let Some(clear) = self.driver.as_ref().and_then(|d| d.get::<Function>("clear_all").ok())
        {
            // It only stores; a failure would be a failure to allocate, and nothing is allocated.
            let _ = clear.call::<()>(());
        }
    }

    /// Whether some events are kept back by predicates: how many get through is known only behind the walk.
    pub(super) fn chooses(&self) -> bool {
        self.chooses
    }

    /// How many events predicates have kept back so far.
    pub(super) fn filtered(&self) -> u64 {
        let Some(driver) = self.driver.as_ref().filter(|_| self.chooses) else { return 0 };
        let count =
            driver.get::<Function>("filtered").and_then(|filtered| filtered.call::<f64>(()));
        count.unwrap_or_default() as u64
    }

    /// Ends the walk behind the `left`th event that gets through. Those of the process `hidden` are not counted.
    pub(super) fn limit(&self, left: u64, hidden: Option<u32>) -> mlua::Result<()> {
        let Some(driver) = &self.driver else { return Ok(()) };
        let hidden = hidden.map_or(-2, |pid| pid as i32);
        driver.get::<Function>("limit")?.call((left as f64, hidden))
    }

    /// How many events the limit still leaves.
    pub(super) fn left(&self) -> mlua::Result<u64> {
        let Some(driver) = &self.driver else { return Ok(0) };
        Ok(driver.get::<Function>("left")?.call::<f64>(())? as u64)
    }

    /// Whether there were handlers and every one was switched off for its errors.
    pub(super) fn spent(&self) -> bool {
        !self.handlers.is_empty() && self.errors.borrow().off.len() >= self.handlers.len()
    }

    /// `a.lua:3: ` or `a.lua:3 or a.lua:9: `: where the handlers of these roles begin; empty where that is not known.
    pub(super) fn places_of(&self, roles: &[usize]) -> String {
        let of_roles = self.handlers.iter().filter(|handler| roles.contains(&handler.role));
        let mut places: Vec<&str> =
            of_roles.filter_map(|handler| handler.place.as_deref()).collect();
        places.dedup();
        places.truncate(3);
        if places.is_empty() { String::new() } else { format!("{}: ", places.join(" or ")) }
    }

    /// Errors so far.
    pub(super) fn errors(&self) -> u64 {
        self.errors.borrow().all
    }

    /// Counts a failure outside a handler.
    pub(super) fn count_error(&self) {
        self.errors.borrow_mut().all += 1;
    }

    /// The function that drivers call with a failing event: shows it, counts it, and says whether to switch off.
    fn failing(&self, addresses: Addresses) -> mlua::Result<Function> {
        let (errors, shared) = (self.errors.clone(), self.shared.clone());
        let places: HashMap<usize, String> =
            self.handlers.iter().filter_map(|h| Some((h.role, h.place.clone()?))).collect();
        self.lua.create_function(move |_, (role, slot, why): (usize, usize, mlua::LuaString)| {
            let mut errors = errors.borrow_mut();
            errors.all += 1;
            if errors.by_role.len() <= role {
                errors.by_role.resize(role + 1, 0);
            }
            errors.by_role[role] += 1;
            let count = errors.by_role[role];
            // SAFETY: the driver passes the index of the slot that it stands on, of the batch that it was given.
            let slot: &Slot = unsafe { &*addresses.slots.add(slot) };
            // SAFETY: the batch is being dispatched: its slots' pointers are good.
            let raw = unsafe { raw_of(slot) };
            shared.with(|context| {
                let off = count >= ERRORS_PER_HANDLER;
                // An error's text may hold bytes of a task's name, which is any bytes.
                let fault = describe_text(&why.to_string_lossy());
                let fault = explained_error(fault, places.get(&role).map(String::as_str));
                // The way there is the same each time; once is enough.
                let text = if count == 1 { fault.to_string() } else { fault.message };
                context.note(Level::Error, &text);
                context.note_event(slot, raw);
                if off {
                    let name = context.roles.get(role).map_or("", |e| e.name.as_str()).to_owned();
                    context.note(
                        Level::Error,
                        &format!("{name}: its handler failed {count} times and is switched off"),
                    );
                    errors.off.insert(role);
                }
                Ok(off)
            })
        })
    }

    /// The reports of `wanted` values in their order, or of everything declared.
    pub(super) fn draw(
        &self,
        aggregates: &Aggregates,
        counts: &[Count],
        wanted: Option<&[Value]>,
    ) -> mlua::Result<Vec<Report>> {
        let Some(wanted) = wanted else {
            let mut reports = aggregates.draw(&self.lua, None)?;
            for entry in self.counter_tables()? {
                reports.push(self.draw_counters(&entry, counts)?);
            }
            return Ok(reports);
        };
        let mut reports = Vec::new();
        for value in wanted {
            if let Value::UserData(made) = value
                && let Ok(made) = made.borrow::<Made>()
            {
                reports.push(Report::Table(made.0.clone()));
            } else if let Some(entry) =
                self.counter_tables()?.into_iter().find(|e| is_table_of(e, value))
            {
                reports.push(self.draw_counters(&entry, counts)?);
            } else {
                reports.extend(aggregates.draw(&self.lua, Some(std::slice::from_ref(value)))?);
            }
        }
        Ok(reports)
    }

    fn counter_tables(&self) -> mlua::Result<Vec<Table>> {
        self.exports.get::<Table>("counter_tables")?.sequence_values().collect()
    }

    fn draw_counters(&self, entry: &Table, counts: &[Count]) -> mlua::Result<Report> {
        let mut instances: Vec<u32> = counts.iter().map(|c| c.instance).collect();
        instances.sort_unstable();
        instances.dedup();
        let draw: Function = self.exports.get("draw_counters")?;
        let made: mlua::UserDataRef<Made> = draw.call((entry, instances, self.per_thread))?;
        Ok(Report::Table(made.0.clone()))
    }
}

/// Whether `value` is the object that stands for this counters{}.
fn is_table_of(entry: &Table, value: &Value) -> bool {
    entry.get::<Value>("table").is_ok_and(|table| table == *value)
}
