//! The kernel as a session's source: rings that stay, events that come and go.

use std::rc::Rc;

use anyhow::Context as _;

use super::super::catalog::MachineCatalog;
use super::super::live::{opening, running};
use super::super::machine::{mounted, name_stacks, print_by_formats};
use super::super::machine_changes::MachineChanges;
use super::super::request::RunRequest;
use super::super::scope::{Scope, limit};
use super::super::workload::refused;
use crate::base::draw::Level;
use crate::event::catalog::Catalog;
use crate::event::plan;
use crate::script::evsel::Role;
use crate::script::host::{Host, Setting};
use crate::source::change::Closer;
use crate::source::counts::Count;
use crate::source::live::Live;
use crate::source::open::{Opening, Refused, Wish};
use crate::sys::cpus::online_cpus;
use crate::sys::namespace::{kernel_tid, tid_in_records};
use crate::sys::refusal::Refusal;
use crate::sys::tasks::task_names;
use crate::sys::toll::{self, Toll};
use crate::task::Tasks;

/// The rings, and what is open on them.
pub(super) struct Watched {
    pub(super) live: Live,
    changes: MachineChanges,
    wish: Wish,
    /// The CPUs that are watched.
    only: Vec<u32>,
    /// Why there are no rings: this user may not have them.
    refused: Option<Refusal>,
    catalog: Rc<MachineCatalog>,
    /// The roles as they are open.
    open: Vec<Role>,
    /// Threads of ours beside this one, which nobody wants to watch.
    others: Vec<i32>,
    knows_own: bool,
    closer: Closer,
}

impl Watched {
    /// Opens the rings and begins to follow tasks; `others` are our further threads. For a user who may not there is a session
    /// without rings: much of what is typed needs no event.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub(super) fn begin(
        request: &RunRequest,
        mut others: Vec<i32>,
    ) -> anyhow::Result<(Watched, Setting)> {
        let settings = &request.host;
        let catalog = Rc::new(MachineCatalog::default());
        let scope = Scope::of(settings, None)?;
        let setting = scope.setting(request, catalog.clone())?;
        let (told, tid) = std::sync::mpsc::channel();
        let closer = Closer::start(move || {
            // It waits for its number, or for nobody.
            let _ = told.send(tid_in_records());
        })
        .context("failed to start the thread that closes events")?;
        others.extend(tid.recv());
        let Scope { cpus: only, tasks } = scope;
        let wish = Wish {
            cpus: online_cpus(),
            watched: only.clone(),
            workload: false,
            off: Vec::new(),
            tasks,
            pages: settings.mmap_pages.map(|pages| pages as usize),
            watermark: settings.watermark,
            ordered: settings.order.unwrap_or(true),
            mmap: true,
            watch_self: settings.watch_self,
            own_tids: Vec::new(),
        };
        let (mut live, refused) = match Live::open(Vec::new(), &wish, super::ROLES) {
            Ok(live) => (live, None),
            Err(why) => match why.downcast::<Refusal>()? {
                refusal if refusal.is_permission() => {
                    let none = Wish { cpus: Vec::new(), ..wish.clone() };
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
        let watched = Watched {
            live,
            changes,
            wish,
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

    /// Follows CPUs that go and come back, and the wall clock.
    pub(super) fn follow_machine(&mut self, host: &mut Host) {
        self.changes.look(&mut self.live, host);
    }

    /// What a user should hear about how it began.
    pub(super) fn remarks(&self) -> Vec<String> {
        let mut remarks = self.live.remarks().to_vec();
        remarks.extend(self.refused.as_ref().map(|refusal| {
            let why = refused(refusal, &[], self.way_out());
            format!("{why}; here only what needs no event works")
        }));
        remarks
    }

    /// What who may watch little can do.
    fn way_out(&self) -> &'static str {
        let asked = self.wish.tasks.is_some();
        if asked { "" } else { "a process of your own: perilune repl -p PID" }
    }

    /// Gives the host what it has to know of this machine's tasks.
    pub(super) fn introduce(&self, host: &Host, request: &RunRequest) {
        let processors = self.wish.cpus.last().map_or(0, |cpu| *cpu as usize + 1);
        let names = task_names();
        let clock = *self.live.clock();
        host.shared().with(|context| {
            context.tasks = Tasks::new(processors);
            context.tasks.snapshot(names.iter().map(running));
            name_stacks(context, request.host.lines);
            context.clock = clock;
            context.hide_pid = (!request.host.watch_self).then(std::process::id);
        });
    }

    /// Opens what is new, off, and opens anew what was narrowed.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub(super) fn attach(&mut self, host: &mut Host) -> anyhow::Result<()> {
        let known = self.open.len();
        let settled = host.settle(known)?;
        let roles = host.roles();
        // Whatever becomes of them, they are not new any more.
        self.open.extend_from_slice(&roles[known..]);
        if let Some(refusal) = self.refused.as_ref().filter(|_| roles.len() > known) {
            return Err(refused(refusal, &roles[known..], self.way_out()));
        }
        self.meet_tracefs(host)?;
        if self.wish.own_tids.is_empty() && roles.iter().any(|r| r.event.function().is_some()) {
            self.wish.own_tids = self.own_tids(tid_in_records());
        }
        if settled.misread.is_none() && roles.len() > known {
            let openings = (known..roles.len())
                .map(|role| planned(role, &roles, &self.only))
                .collect::<anyhow::Result<Vec<_>>>()?;
            let remarks = self.live.remarks().len();
            let refused = self.live.add(openings, &self.wish, roles.len())?;
            hand_over(host, &refused)?;
            super::tell(host, &self.live.remarks()[remarks..]);
        }
        host.attach(self.live.batch().addresses())?;
        for role in settled.narrowed {
            if let Err(why) = self.narrow(role, &roles, host) {
                host.put_back(role, self.open[role as usize].clone());
                return Err(why);
            }
            self.open[role as usize] = host.roles()[role as usize].clone();
        }
        settled.misread.map_or(Ok(()), Err)
    }

    /// The threads that are kept out of what is watched: this one, by its number in the kernel's filters, and those beside it.
    fn own_tids(&self, this: i32) -> Vec<i32> {
        std::iter::once(this).chain(self.others.iter().copied()).collect()
    }

    fn narrow(&mut self, role: u32, roles: &[Role], host: &mut Host) -> anyhow::Result<()> {
        // What only user space checks needs no other event.
        if roles[role as usize].filter != self.open[role as usize].filter {
            let opening = planned(role as usize, roles, &self.only)?;
            let refused = self.live.renew(role, opening, &self.wish, &self.closer)?;
            hand_over(host, &refused)?;
        }
        host.revive(role)
    }

    /// The first tracepoint: how its records print, and which numbers our threads have in them.
    fn meet_tracefs(&mut self, host: &Host) -> anyhow::Result<()> {
        let Some(tracefs) = self.catalog.tracefs().filter(|_| !self.knows_own) else {
            return Ok(());
        };
        self.knows_own = true;
        if let Some(text) = mounted(tracefs) {
            host.shared().with(|context| context.note(Level::Info, &text));
        }
        self.wish.own_tids = self.own_tids(kernel_tid(tracefs)?);
        host.shared().with(|context| print_by_formats(context, tracefs));
        Ok(())
    }

    /// The events there are.
    pub(super) fn catalog(&self) -> Rc<dyn Catalog> {
        self.catalog.clone()
    }

    /// How many roles there are.
    pub(super) fn roles(&self) -> usize {
        self.open.len()
    }

    /// What a record costs the kernel, measured now; None without tracepoints of system calls.
    pub(super) fn toll(&self) -> Option<Toll> {
        let (toll, events) = toll::measure(self.catalog.tracefs()?).ok()?;
        self.closer.close(events);
        Some(toll)
    }

    /// Ends roles for good.
    pub(super) fn close(&mut self, roles: &[u32]) {
        roles.iter().for_each(|role| self.live.close(*role, &self.closer));
    }

    /// What the counters added since the last call.
    pub(super) fn counts(&mut self) -> Vec<Count> {
        self.live.counts()
    }
}

/// An opening for one role alone, so that it can be narrowed and closed by itself.
fn planned(index: usize, roles: &[Role], only: &[u32]) -> anyhow::Result<Opening> {
    let mut plan = plan::plan(&roles[index..=index])?;
    let mut planned = plan.pop().context("a role is planned")?;
    planned.roles = vec![index];
    let mut opening = opening(planned, roles)?;
    limit(&mut opening, only);
    Ok(opening)
}

fn hand_over(host: &mut Host, refused: &[Refused]) -> anyhow::Result<()> {
    refused.iter().try_for_each(|one| host.filter_here(one.role, one.rest.clone()))
}
