//! The kernel as a session's source: the rings stay open while events are opened and closed.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use anyhow::Context as _;

use super::super::catalog::MachineCatalog;
use super::super::cgroups::{WatchedCgroups, limited};
use super::super::machine::{existing_task, mounted, name_stacks, print_by_formats};
use super::super::machine_changes::MachineChanges;
use super::super::request::RunRequest;
use super::super::scope::WatchScope;
use super::super::workload::refused;
use super::counts::SessionCounts;
use super::role_opening::planned;
use crate::base::report::draw::Level;
use crate::event::catalog::Catalog;
use crate::script::context::shared::SharedContext;
use crate::script::evsel::role::Role;
use crate::script::host::{Host, Setting};
use crate::script::prompt::Prompt;
use crate::source::counts::CountDelta;
use crate::source::live::Live;
use crate::source::live::change::Closer;
use crate::source::request::{MappingRecords, Opening, RefusedCondition, SourceRequest};
use crate::source::side_record::SideKinds;
use crate::sys::cpus::online_cpus;
use crate::sys::own_tid::{kernel_tid, tid_in_records};
use crate::sys::refusal::Refusal;
use crate::sys::tasks::task_names;
use crate::sys::tracepoint_overhead::{self, TracepointOverhead};
use crate::task::Tasks;

/// The rings and the events that are open on them.
pub(super) struct LiveSource {
    pub(super) live: Live,
    changes: MachineChanges,
    source_request: SourceRequest,
    /// The watched CPUs.
    only: Vec<u32>,
    /// The control groups of `--cgroup`.
    cgroups: Option<WatchedCgroups>,
    /// Why there are no rings: the user lacks the permission.
    refused: Option<Refusal>,
    catalog: Rc<MachineCatalog>,
    /// The roles as they are open now.
    open: Vec<Role>,
    /// perilune's other threads, which are excluded.
    others: Vec<i32>,
    knows_own: bool,
    closer: Closer,
    counts: SessionCounts,
}

impl LiveSource {
    /// Opens the rings and starts to follow tasks; `others` are perilune's other threads. A user
    /// without permission gets a session without rings, since many lines need no events.
    ///
    /// # Errors
    /// The kernel refuses the rings, or a thread cannot be started.
    pub(super) fn begin(
        request: &RunRequest,
        mut others: Vec<i32>,
    ) -> anyhow::Result<(LiveSource, Setting)> {
        let settings = &request.options;
        let catalog = Rc::new(MachineCatalog::default());
        let scope = WatchScope::of(request, None)?;
        let setting = scope.setting(request, catalog.clone())?;
        let (sender, tid) = std::sync::mpsc::channel();
        let closer = Closer::start(move || {
            // The receiver waits for the id until it comes.
            let _ = sender.send(tid_in_records());
        })
        .context("failed to start the thread that closes events")?;
        others.extend(tid.recv());
        let WatchScope { cpus: only, tasks, cgroups } = scope;
        let source_request = SourceRequest {
            cpus: online_cpus(),
            watched: only.clone(),
            workload: false,
            off: Vec::new(),
            tasks,
            processes: settings.processes(),
            cgroups: cgroups.as_ref().and_then(WatchedCgroups::threads),
            pages: settings.mmap_pages.map(|pages| pages as usize),
            watermark: settings.watermark,
            ordered: settings.order.unwrap_or(true),
            mmap: MappingRecords::WithInodes,
            side: SideKinds::AT_PROMPT,
            watch_self: settings.watch_self,
            own_tids: Vec::new(),
        };
        let (mut live, refused) = match Live::open(Vec::new(), &source_request, super::ROLES) {
            Ok(live) => (live, None),
            Err(why) => match why.downcast::<Refusal>()? {
                refusal if refusal.is_permission() => {
                    let none = SourceRequest { cpus: Vec::new(), ..source_request.clone() };
                    (Live::open(Vec::new(), &none, super::ROLES)?, Some(refusal))
                }
                refusal => return Err(refusal.into()),
            },
        };
        live.enable_side()?;
        live.enable(false)?;
        let open = Vec::new();
        let knows_own = false;
        let changes = MachineChanges::begin(&live);
        let watched = LiveSource {
            live,
            changes,
            source_request,
            only,
            cgroups,
            refused,
            catalog,
            open,
            others,
            knows_own,
            closer,
            counts: SessionCounts::new(request),
        };
        Ok((watched, setting))
    }

    /// Reports CPUs that go offline and come back, and steps of the wall clock.
    pub(super) fn follow_machine(&mut self, prompt: &mut Prompt) {
        let context = prompt.host.context().clone();
        self.changes.check(&mut self.live, &context, prompt);
    }

    /// Returns the messages about how the rings were opened.
    pub(super) fn remarks(&self) -> Vec<String> {
        let mut remarks = self.live.remarks().to_vec();
        remarks.extend(self.refused.as_ref().map(|refusal| {
            let why = refused(refusal, &[], self.alternative());
            format!("{why}; at this prompt, only functions that need no event work")
        }));
        remarks
    }

    /// Returns the alternative for a user with few permissions.
    fn alternative(&self) -> &'static str {
        let asked = self.source_request.tasks.is_some();
        if asked { "" } else { "your own process: perilune repl -p PID" }
    }

    /// Gives the context this machine's tasks and clock.
    pub(super) fn set_up_context(&self, context: &SharedContext, request: &RunRequest) {
        let processors = self.source_request.cpus.last().map_or(0, |cpu| *cpu as usize + 1);
        let names = task_names();
        let mut tasks = Tasks::new(processors);
        tasks.snapshot(names.iter().map(existing_task), self.live.now());
        context.set_tasks(tasks);
        name_stacks(context, request.options.lines);
        context.set_clock(*self.live.clock());
        context.hide_process((!request.options.watch_self).then(std::process::id));
    }

    /// Opens new events, switched off, and reopens the narrowed ones.
    ///
    /// # Errors
    /// The kernel refuses an event, or a handler reads a field that does not exist.
    pub(super) fn attach(&mut self, prompt: &mut Prompt) -> anyhow::Result<()> {
        let known = self.open.len();
        let changes = prompt.prepare_changes(known)?;
        let roles = prompt.host.roles();
        // They count as known from here on, even if they cannot be opened.
        self.open.extend_from_slice(&roles[known..]);
        if let Some(refusal) = self.refused.as_ref().filter(|_| roles.len() > known) {
            return Err(refused(refusal, &roles[known..], self.alternative()));
        }
        self.prepare_for_tracepoints(prompt.host.context())?;
        if self.source_request.own_tids.is_empty()
            && roles.iter().any(|r| r.event.kind().is_probe())
        {
            self.source_request.own_tids = self.own_tids(tid_in_records());
        }
        let taken = self.counts.take(&prompt.host, &self.source_request)?;
        if changes.misread.is_none() && roles.len() > known {
            let recorded = (known..roles.len()).filter(|role| !taken.contains(&(*role as u32)));
            self.record(recorded.collect(), &roles, &mut prompt.host)?;
        }
        prompt.host.attach(self.live.batch().addresses())?;
        self.count_in_kernel(&taken, prompt)?;
        let handled = self.counts.handled(&prompt.host)?;
        self.release(&handled, prompt)?;
        for role in changes.narrowed {
            if let Err(why) = self.narrow(role, &roles, prompt) {
                prompt.put_back(role, self.open[role as usize].clone());
                return Err(why);
            }
            self.open[role as usize] = prompt.host.roles()[role as usize].clone();
        }
        changes.misread.map_or(Ok(()), Err)
    }

    /// Opens the events of roles for records, switched off.
    fn record(&mut self, of: Vec<usize>, roles: &[Role], host: &mut Host) -> anyhow::Result<()> {
        let recorded = of.into_iter().filter(|role| !roles[*role].event.kind().is_derived());
        let openings = self.openings(recorded, roles)?;
        let remarks = self.live.remarks().len();
        let refused = self.live.add(openings, &self.source_request, roles.len())?;
        hand_over(host, &refused)?;
        super::print_warnings(host.context(), &self.live.remarks()[remarks..]);
        Ok(())
    }

    /// Plans the openings of roles on the watched CPUs, for each watched control group.
    fn openings(
        &self,
        of: impl Iterator<Item = usize>,
        roles: &[Role],
    ) -> anyhow::Result<Vec<Opening>> {
        let openings = of.map(|role| planned(role, roles, &self.only));
        let openings = openings.collect::<anyhow::Result<_>>()?;
        limited(openings, self.cgroups.as_ref(), &*self.catalog, false)
    }

    /// Closes the events of roles that the kernel counts, and begins to count those that were on.
    fn count_in_kernel(
        &mut self,
        taken: &BTreeSet<u32>,
        prompt: &mut Prompt,
    ) -> anyhow::Result<()> {
        let is_on = |role: &&u32| self.live.is_on(**role);
        let on = taken.iter().filter(is_on).map(|role| (*role, true)).collect();
        taken.iter().for_each(|role| self.live.close(*role, &self.closer));
        self.switch(&on, prompt)
    }

    /// Records the events of these roles, and of those of their tables, if the kernel counted them.
    ///
    /// # Errors
    /// The kernel refuses an event, or to return what it has counted.
    pub(super) fn release(&mut self, roles: &[u32], prompt: &mut Prompt) -> anyhow::Result<()> {
        let released = self.counts.release(roles, &mut prompt.host, self.live.now());
        self.record_released(&released, prompt)
    }

    fn record_released(
        &mut self,
        released: &BTreeMap<u32, bool>,
        prompt: &mut Prompt,
    ) -> anyhow::Result<()> {
        if !released.is_empty() {
            let all = released.keys().map(|role| *role as usize).collect();
            self.record(all, &prompt.host.roles(), &mut prompt.host)?;
            self.live.switch(released)?;
        }
        Ok(())
    }

    /// Turns roles on or off, all at once.
    ///
    /// # Errors
    /// The kernel cannot switch an event.
    pub(super) fn switch(
        &mut self,
        switches: &BTreeMap<u32, bool>,
        prompt: &mut Prompt,
    ) -> anyhow::Result<()> {
        if !switches.is_empty() {
            let roles = prompt.host.roles();
            let of_run = (&self.source_request, roles.as_slice(), self.live.now());
            let recorded = self.counts.switch(switches, &mut prompt.host, of_run)?;
            self.release(&recorded, prompt)?;
        }
        Ok(self.live.switch(switches)?)
    }

    /// Returns the excluded threads: this one, by its number in the kernel's filters, and the
    /// others.
    fn own_tids(&self, this: i32) -> Vec<i32> {
        std::iter::once(this).chain(self.others.iter().copied()).collect()
    }

    fn narrow(&mut self, role: u32, roles: &[Role], prompt: &mut Prompt) -> anyhow::Result<()> {
        if self.counts.has(role) {
            let of_run = (&self.source_request, roles, self.live.now());
            let recorded = self.counts.renew(role, &mut prompt.host, of_run)?;
            self.release(&recorded, prompt)?;
            let on = recorded.into_iter().map(|role| (role, true)).collect();
            self.live.switch(&on)?;
            return prompt.revive(role);
        }
        // A condition that only user space checks needs no new event.
        let (new, open) = (&roles[role as usize], &self.open[role as usize]);
        if new.filter != open.filter || new.sampling.extra != open.sampling.extra {
            let openings = self.openings(std::iter::once(role as usize), roles)?;
            let refused = self.live.renew(role, &openings, &self.source_request, &self.closer)?;
            hand_over(&mut prompt.host, &refused)?;
        }
        prompt.revive(role)
    }

    /// Prepares for the first tracepoint: the print formats, and the numbers of perilune's own
    /// threads in its records.
    fn prepare_for_tracepoints(&mut self, context: &SharedContext) -> anyhow::Result<()> {
        let Some(tracefs) = self.catalog.tracefs().filter(|_| !self.knows_own) else {
            return Ok(());
        };
        self.knows_own = true;
        if let Some(text) = mounted(tracefs) {
            context.note(Level::Info, &text);
        }
        self.source_request.own_tids = self.own_tids(kernel_tid(tracefs)?);
        print_by_formats(context, tracefs);
        Ok(())
    }

    /// Returns whether the tasks of -p or -t were watched and have ended.
    pub(super) fn have_ended(&self) -> bool {
        let tasks = self.source_request.tasks.as_deref();
        tasks.is_some_and(|tids| self.live.have_ended(tids))
    }

    /// Returns whether only the tasks of -p, -t or --cgroup are watched.
    pub(super) fn watches_tasks(&self) -> bool {
        self.live.watches_tasks()
    }

    /// Returns the events that exist.
    pub(super) fn catalog(&self) -> Rc<dyn Catalog> {
        self.catalog.clone()
    }

    /// Returns the number of roles.
    pub(super) fn roles(&self) -> usize {
        self.open.len()
    }

    /// Measures the cost of a record in the kernel; `None` without tracepoints of system calls.
    pub(super) fn record_overhead(&self) -> Option<TracepointOverhead> {
        let (overhead, events) = tracepoint_overhead::measure(self.catalog.tracefs()?).ok()?;
        self.closer.close(events);
        Some(overhead)
    }

    /// Closes roles permanently.
    ///
    /// # Errors
    /// The kernel refuses to return what it has counted.
    pub(super) fn close(&mut self, roles: &[u32], prompt: &mut Prompt) -> anyhow::Result<()> {
        let mut released = self.counts.release(roles, &mut prompt.host, self.live.now());
        // Those of the same tables that stay open.
        released.retain(|role, _| !roles.contains(role));
        self.record_released(&released, prompt)?;
        roles.iter().for_each(|role| self.live.close(*role, &self.closer));
        Ok(())
    }

    /// Returns the tables that the kernel counts.
    pub(super) fn counted(&self) -> &SessionCounts {
        &self.counts
    }

    /// Adds what the kernel has counted in tables; at any time, or if it is due.
    ///
    /// # Errors
    /// The kernel refuses to return it.
    pub(super) fn collect(&mut self, prompt: &mut Prompt, at_once: bool) -> anyhow::Result<()> {
        let of_now = (self.open.as_slice(), self.live.now());
        let differ = self.counts.collect(&mut prompt.host, of_now, at_once)?;
        let closed = self.counts.take_closed();
        if !closed.is_empty() {
            self.closer.close(closed);
        }
        self.release(&differ, prompt)
    }

    /// Returns the counts since the last call.
    pub(super) fn counts(&mut self) -> Vec<CountDelta> {
        self.live.counts()
    }
}

fn hand_over(host: &mut Host, refused: &[RefusedCondition]) -> anyhow::Result<()> {
    refused.iter().try_for_each(|one| host.filter_here(one.role, one.rest.clone()))
}
