//! The kernel as a session's source: the rings stay open while events are opened and closed.

use std::rc::Rc;

use anyhow::{Context as _, ensure};

use super::super::catalog::MachineCatalog;
use super::super::machine::{existing_task, mounted, name_stacks, print_by_formats};
use super::super::machine_changes::MachineChanges;
use super::super::openings::opening;
use super::super::request::RunRequest;
use super::super::scope::{WatchScope, limit};
use super::super::workload::refused;
use crate::base::report::draw::Level;
use crate::event::catalog::Catalog;
use crate::event::plan;
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
    /// Why there are no rings: the user lacks the permission.
    refused: Option<Refusal>,
    catalog: Rc<MachineCatalog>,
    /// The roles as they are open now.
    open: Vec<Role>,
    /// perilune's other threads, which are excluded.
    others: Vec<i32>,
    knows_own: bool,
    closer: Closer,
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
        ensure!(
            settings.cgroup.is_none(),
            "--cgroup cannot be combined with a prompt; use -p, or start a monitor as a command"
        );
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
        let WatchScope { cpus: only, tasks, .. } = scope;
        let source_request = SourceRequest {
            cpus: online_cpus(),
            watched: only.clone(),
            workload: false,
            off: Vec::new(),
            tasks,
            cgroups: None,
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
            refused,
            catalog,
            open,
            others,
            knows_own,
            closer,
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
        tasks.snapshot(names.iter().map(existing_task));
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
        if changes.misread.is_none() && roles.len() > known {
            let openings = (known..roles.len())
                .filter(|role| !roles[*role].event.kind().is_derived())
                .map(|role| planned(role, &roles, &self.only))
                .collect::<anyhow::Result<Vec<_>>>()?;
            let remarks = self.live.remarks().len();
            let refused = self.live.add(openings, &self.source_request, roles.len())?;
            hand_over(&mut prompt.host, &refused)?;
            super::print_warnings(prompt.host.context(), &self.live.remarks()[remarks..]);
        }
        prompt.host.attach(self.live.batch().addresses())?;
        for role in changes.narrowed {
            if let Err(why) = self.narrow(role, &roles, prompt) {
                prompt.put_back(role, self.open[role as usize].clone());
                return Err(why);
            }
            self.open[role as usize] = prompt.host.roles()[role as usize].clone();
        }
        changes.misread.map_or(Ok(()), Err)
    }

    /// Returns the excluded threads: this one, by its number in the kernel's filters, and the
    /// others.
    fn own_tids(&self, this: i32) -> Vec<i32> {
        std::iter::once(this).chain(self.others.iter().copied()).collect()
    }

    fn narrow(&mut self, role: u32, roles: &[Role], prompt: &mut Prompt) -> anyhow::Result<()> {
        // A condition that only user space checks needs no new event.
        let (new, open) = (&roles[role as usize], &self.open[role as usize]);
        if new.filter != open.filter || new.sampling.extra != open.sampling.extra {
            let opening = planned(role as usize, roles, &self.only)?;
            let refused = self.live.renew(role, opening, &self.source_request, &self.closer)?;
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
    pub(super) fn close(&mut self, roles: &[u32]) {
        roles.iter().for_each(|role| self.live.close(*role, &self.closer));
    }

    /// Returns the counts since the last call.
    pub(super) fn counts(&mut self) -> Vec<CountDelta> {
        self.live.counts()
    }
}

/// Plans an opening for one role alone, so that it can be narrowed and closed by itself.
fn planned(index: usize, roles: &[Role], only: &[u32]) -> anyhow::Result<Opening> {
    let mut plan = plan::plan(&roles[index..=index])?;
    let mut planned = plan.pop().context("the event has no plan")?;
    planned.roles = vec![index];
    let mut opening = opening(planned, roles)?;
    limit(&mut opening, only);
    Ok(opening)
}

fn hand_over(host: &mut Host, refused: &[RefusedCondition]) -> anyhow::Result<()> {
    refused.iter().try_for_each(|one| host.filter_here(one.role, one.rest.clone()))
}
