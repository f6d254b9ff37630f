//! Passes the events of a batch to handlers: the views and drivers of a run, the treatment of
//! failing events, and drawing.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::rc::Rc;

use anyhow::{Context as _, bail};
use mlua::{Function, Table};

use super::context::printers::Printers;
use super::context::shared::SharedContext;
use super::evsel::role::Role;
use super::vm::call::place_of;
use super::vm::guard::{Failure, Guard, Phase};
use super::vm::trusted::TrustedLua;
use crate::source::Batch;
use crate::source::batch::Addresses;
use errors::Errors;
use sample_fields::count_names;

pub(super) mod draw;
mod drivers;
mod errors;
mod failing;
mod handlers;
mod predicate;
mod printer;
mod sample_fields;
mod sample_parts;
pub(super) mod view;

/// Lua side of a run: the tables of the preludes, the views, the drivers, and the error count.
pub(super) struct Dispatch {
    trusted: TrustedLua,
    /// The check for misspelt fields in handlers, once it is loaded.
    fields: OnceCell<Function>,
    shared: SharedContext,
    handlers: Vec<Handler>,
    /// Number of evsels that have views, and of handlers that are on their drivers.
    made: usize,
    attached: usize,
    driver: Option<Table>,
    /// Arrays that the driver reads.
    walked: Option<Addresses>,
    walk: Option<Function>,
    errors: Rc<RefCell<Errors>>,
    places: Rc<RefCell<HashMap<usize, String>>>,
    per_thread: bool,
    /// Whether there are predicates before handlers, so that the drivers count the events that pass
    /// for `-N`.
    chooses: bool,
    /// Roles that the kernel counts; it writes records of their long pairs only.
    pub(super) written: BTreeSet<usize>,
}

/// Handler of a role's events.
struct Handler {
    role: usize,
    function: Function,
    /// `file.lua:31`, the start of the function: read from Lua before its memory can be full.
    place: Option<String>,
}

/// Why a walk ended early.
pub(super) struct WalkError {
    /// The error.
    pub why: String,
    /// Position after the event whose handler was stopped; `None` if it is unknown.
    pub rest: Option<u64>,
}

impl Dispatch {
    /// Creates a dispatch over loaded preludes, without views.
    pub(super) fn new(trusted: TrustedLua, shared: SharedContext) -> Self {
        Dispatch {
            trusted,
            fields: OnceCell::new(),
            shared,
            handlers: Vec::new(),
            made: 0,
            attached: 0,
            driver: None,
            walked: None,
            walk: None,
            errors: Rc::default(),
            places: Rc::default(),
            per_thread: false,
            chooses: false,
            written: BTreeSet::new(),
        }
    }

    /// Sets the number of errors that switch a handler off.
    pub(super) fn tolerate(&self, errors: u64) {
        self.errors.borrow_mut().most = errors;
    }

    /// Returns the number of errors that switch a handler off.
    pub(super) fn tolerated(&self) -> u64 {
        self.errors.borrow().most
    }

    /// Creates the views of roles that have none, and finds their handlers (the evsel's own, or
    /// `sample`) and their events' printers.
    ///
    /// # Errors
    /// An evsel has no handler, or the runtime's own Lua failed.
    pub(super) fn make_views(
        &mut self,
        roles: &[Role],
        sample: Option<&Function>,
        printers: &Printers,
        per_thread: bool,
    ) -> anyhow::Result<()> {
        self.per_thread = per_thread;
        let event_of = self.trusted.export("event_of")?;
        let offer = self.trusted.export("offer_fields")?;
        let make: Function = self.trusted.views.get("make")?;
        let first = self.handlers.len();
        let entries: Vec<Table> = self
            .trusted
            .exports
            .get::<Table>("evsels")?
            .sequence_values()
            .collect::<mlua::Result<_>>()?;
        // Evsels that fail now are not tried again.
        let made = std::mem::replace(&mut self.made, entries.len());
        for entry in &entries[made.min(entries.len())..] {
            if entry.get("count")? {
                continue;
            }
            let own: Option<Function> = entry.get("handler")?;
            for (position, index) in entry.get::<Vec<usize>>("roles")?.into_iter().enumerate() {
                let event = &roles.get(index).context("an evsel has no such role")?.event;
                let Some(handler) = own.as_ref().or(sample) else {
                    bail!(
                        "{} has no handler: pass one to its evsel, or define m.sample(e)",
                        event.name
                    );
                };
                let getters =
                    event.format().map_or_else(|| "return {}, {}".to_owned(), view::getters);
                let object: Table = event_of.call((entry, position + 1))?;
                make.call::<()>((index, event.name.as_str(), getters, object, per_thread))?;
                offer.call::<()>((index, event.name.as_str(), count_names(event)))?;
                let place = place_of(handler);
                if let Some(place) = &place {
                    self.places.borrow_mut().insert(index, place.clone());
                }
                let function = handler.clone();
                self.handlers.push(Handler { role: index, function, place });
            }
        }
        let errors = self.errors.clone();
        let failed = printer::failing(self.trusted.lua(), &self.shared, move || {
            errors.borrow_mut().all += 1;
        })?;
        let new = self.handlers[first..].iter().map(|handler| handler.role);
        Ok(printer::install(&self.trusted.exports, printers, roles, new, &failed)?)
    }

    /// Attaches the new handlers to their drivers, over a batch's arrays and behind the predicates
    /// of their roles.
    ///
    /// # Errors
    /// The runtime's own Lua failed.
    pub(super) fn attach(&mut self, addresses: Addresses, roles: &[Role]) -> anyhow::Result<()> {
        if self.driver.is_none() {
            let driver = self.load_driver(addresses)?;
            self.walk = Some(driver.get("walk")?);
            self.driver = Some(driver);
            self.walked = Some(addresses);
        }
        let chooses = roles.iter().any(|role| !role.rest.is_empty());
        // A driver's counting is fixed when it is made.
        let first = if chooses == self.chooses { self.attached } else { 0 };
        self.chooses = chooses;
        for handler in &self.handlers[first..] {
            self.put(handler, roles)?;
        }
        self.attached = self.handlers.len();
        Ok(())
    }

    /// Attaches a role's handler again: `function` if there is one, behind the role's current
    /// predicate.
    ///
    /// # Errors
    /// The runtime's own Lua failed.
    pub(super) fn renew(
        &mut self,
        role: usize,
        function: Option<Function>,
        roles: &[Role],
    ) -> anyhow::Result<()> {
        let Some(handler) = self.handlers.iter_mut().find(|handler| handler.role == role) else {
            return Ok(());
        };
        if let Some(function) = function {
            handler.place = place_of(&function);
            handler.function = function;
        }
        {
            let mut errors = self.errors.borrow_mut();
            errors.off.remove(&role);
            errors.by_role.iter_mut().skip(role).take(1).for_each(|count| *count = 0);
        }
        let chooses = roles.iter().any(|role| !role.rest.is_empty());
        // Either all drivers count or none does.
        let all = std::mem::replace(&mut self.chooses, chooses) != chooses;
        let renewed = self.handlers.iter().filter(|handler| all || handler.role == role);
        renewed.into_iter().try_for_each(|handler| self.put(handler, roles))
    }

    /// Walks the batch's first `runs` runs from position `from` on. Returns the position after the
    /// last event that was passed to a handler: the end of the batch, or less after a `stop`.
    ///
    /// # Errors
    /// The guard stopped a handler, which is then switched off, or the runtime's own Lua failed.
    /// All views are dead afterwards.
    pub(super) fn walk(
        &self,
        guard: &Guard,
        batch: &Batch,
        runs: usize,
        from: u64,
    ) -> Result<u64, WalkError> {
        let Some(walk) = &self.walk else { return Ok(from) };
        // The driver reads the arrays it was attached to; those of another batch may have been
        // freed.
        if self.walked != Some(batch.addresses()) {
            let why = "failed to handle a batch: the handlers are attached to another one";
            return Err(WalkError { why: why.to_owned(), rest: None });
        }
        let (role, last) = (batch.first_role(), batch.len() - 1);
        let why = match guard.run(Phase::Handler, || walk.call::<u64>((runs, from, role, last))) {
            Ok(seen) => return Ok(seen),
            Err(why) => why,
        };
        let (role, rest, printing) = self.aborted_at();
        if let (Failure::Stopped(_), Some(role)) = (&why, role) {
            // A loop would be stopped again on the next event, at a second of CPU time each.
            let what = if printing == Some(true) {
                self.unprint(role);
                "printer"
            } else {
                self.errors.borrow_mut().count_of(role);
                self.clear(role);
                "handler"
            };
            let why = format!("{why}; the {what} of {} is switched off", self.name_of(role));
            return Err(WalkError { why, rest });
        }
        Err(WalkError { why: why.to_string(), rest: None })
    }

    /// Ends a batch that ended abnormally. Returns the role that was running, if any, the position
    /// after its event, and whether its printer was running.
    fn aborted_at(&self) -> (Option<usize>, Option<u64>, Option<bool>) {
        // Cannot fail: it only stores, and allocates nothing.
        let place =
            self.trusted.views.get::<Function>("aborted_at").and_then(|function| function.call(()));
        place.unwrap_or_default()
    }

    fn unprint(&self, role: usize) {
        if let Ok(unprint) = self.trusted.export("unprint") {
            // Cannot fail, as in `clear`.
            let _ = unprint.call::<()>(role);
        }
    }

    fn clear(&self, role: usize) {
        self.errors.borrow_mut().off.insert(role);
        if let Some(clear) = self.driver.as_ref().and_then(|d| d.get::<Function>("clear").ok()) {
            // Cannot fail: it only stores, and allocates nothing.
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
    /// A window's condition failed, or the guard stopped it. All views are dead afterwards.
    pub(super) fn print_waiting(&self, guard: &Guard, time: f64) -> Result<(), Failure> {
        let print = || self.trusted.export("print_waiting")?.call::<()>(time);
        guard.run(Phase::Handler, print).inspect_err(|why| {
            let (role, _, printing) = self.aborted_at();
            // A loop would be stopped again.
            if let (Failure::Stopped(_), Some(role), Some(true)) = (why, role, printing) {
                self.unprint(role);
            }
        })
    }

    /// Returns the function that makes the preludes usable after the guard stopped a call.
    ///
    /// # Errors
    /// The runtime's own Lua failed.
    pub(super) fn recovery(&self) -> mlua::Result<Function> {
        self.trusted.views.get("recover")
    }

    /// Returns the table that trusted Lua chunks share.
    pub(super) fn exports(&self) -> &Table {
        &self.trusted.exports
    }

    /// Continues to handle events after a `stop`.
    pub(super) fn go_on(&self) {
        // Cannot fail: it only stores.
        let _ = self.trusted.export("go_on").and_then(|go_on| go_on.call::<()>(()));
    }

    /// Removes all handlers.
    pub(super) fn clear_all(&self) {
        if let Some(clear) = self.driver.as_ref().and_then(|d| d.get::<Function>("clear_all").ok())
        {
            // Cannot fail: it only stores, and allocates nothing.
            let _ = clear.call::<()>(());
        }
    }

    /// Returns whether predicates filter some events, so that the number that pass is known only
    /// after the walk.
    pub(super) fn chooses(&self) -> bool {
        self.chooses
    }

    /// Returns the number of events of these roles that predicates have filtered out so far.
    pub(super) fn filtered(&self, roles: Range<usize>) -> u64 {
        let Some(driver) = self.driver.as_ref().filter(|_| self.chooses) else { return 0 };
        let Some(last) = roles.end.checked_sub(1) else { return 0 };
        let count = driver
            .get::<Function>("filtered")
            .and_then(|filtered| filtered.call::<f64>((roles.start, last)));
        count.unwrap_or_default() as u64
    }

    /// Ends the walk after `left` more events have passed. Hidden events are not counted.
    ///
    /// # Errors
    /// The runtime's own Lua failed.
    pub(super) fn limit(&self, left: u64) -> mlua::Result<()> {
        let Some(driver) = &self.driver else { return Ok(()) };
        driver.get::<Function>("limit")?.call(left as f64)
    }

    /// Returns how many events the limit still allows.
    ///
    /// # Errors
    /// The runtime's own Lua failed.
    pub(super) fn left(&self) -> mlua::Result<u64> {
        let Some(driver) = &self.driver else { return Ok(0) };
        Ok(driver.get::<Function>("left")?.call::<f64>(())? as u64)
    }

    /// Returns where the handlers of these roles begin: `a.lua:3: ` or `a.lua:3 or a.lua:9: `;
    /// empty if unknown.
    pub(super) fn places_of(&self, roles: &[usize]) -> String {
        let of_roles = self.handlers.iter().filter(|handler| roles.contains(&handler.role));
        let mut places: Vec<&str> =
            of_roles.filter_map(|handler| handler.place.as_deref()).collect();
        places.dedup();
        places.truncate(3);
        if places.is_empty() { String::new() } else { format!("{}: ", places.join(" or ")) }
    }
}
