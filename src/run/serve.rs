//! Runs several monitors on the kernel, and exports their reports as metrics.
//!
//! All monitors share one set of rings and one Lua state. An event that two of them want is written
//! once. Each has its own tables, coverage and metrics; their intervals end together. Nothing is
//! printed but messages.

mod loading;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use super::Outcome;
use super::banner::print_banner;
use super::catalog::MachineCatalog;
use super::cgroups;
use super::closing::{TASKS_ENDED, close};
use super::exports::{ExportedInterval, Exports};
use super::kernel_counts::KernelCounts;
use super::live::{attach, coverage, not_opened};
use super::machine_changes::MachineChanges;
use super::openings::{openings, own_tid};
use super::pace::DrainPace;
use super::prepare::{begin_notes, prepare_naming, read_tasks, source_request};
use super::request::RunRequest;
use super::schedule::{Overhead, Schedule};
use super::scope::{WatchScope, of_rings};
use super::session::Monitors;
use super::upkeep::raise_priority;
use crate::base::report::coverage::Coverage;
use crate::base::report::draw::Level;
use crate::script::host::{Host, Rules};
use crate::script::served::ServedMonitors;
use crate::source::live::Live;
use crate::sys::sched::RtBoost;
use crate::sys::signal;
use crate::sys::streams;
pub use loading::ServedMonitor;

/// Runs monitors until the run ends. `request` has the common options, which apply to all.
///
/// # Errors
/// A monitor cannot be loaded or cannot begin; the error names it.
pub fn run(
    host: Host,
    request: &RunRequest,
    monitors: &Monitors,
    served: &[ServedMonitor],
    started: Instant,
) -> anyhow::Result<Outcome> {
    let context = host.context().clone();
    let outcome = serve(host, request, monitors, served, started);
    if outcome.is_err() {
        for (_, text) in context.take_early_notes() {
            streams::print_message(&format!("note: {text}"));
        }
    }
    outcome
}

fn serve(
    host: Host,
    request: &RunRequest,
    monitors: &Monitors,
    wanted: &[ServedMonitor],
    started: Instant,
) -> anyhow::Result<Outcome> {
    let catalog = Rc::new(MachineCatalog::default());
    let scope = WatchScope::of(request, None)?;
    let setting = scope.setting(request, catalog.clone())?;
    let rules = Rules { max_events: None, order: request.options.order };
    let mut served = ServedMonitors::begin(host, &setting, rules)?;
    let request = &loading::load_all(&mut served, request, monitors, wanted)?;
    let settings = &request.options;
    let roles = served.host.roles();
    let (cgroups, by_task) = (scope.cgroups.as_ref(), served.host.calls_for_tasks());
    let mut openings = cgroups::limited(openings(&roles)?, cgroups, &*catalog, by_task)?;
    let cpus = of_rings(&scope.cpus, &mut openings);
    let context = served.host.context().clone();
    let mut exports = Exports::begin(settings, &context)?;
    let own_tids = own_tid(&catalog, &roles)?.into_iter().chain(exports.tids()).collect();
    let source = source_request(&mut served.host, request, scope, cpus, own_tids, None);
    let opened = (&mut openings, served.jobs());
    let mut counts = KernelCounts::open(&served.host, request, &roles, &source, opened)?;
    counts.take_written(&mut served.host)?;
    signal::install()?;
    let mut live = match Live::open(openings, &source, roles.len()) {
        Ok(live) => live,
        Err(why) => return not_opened(why, request, &roles),
    };
    attach(&mut served.host, &live, &roles, settings)?;
    let messages = super::messages(settings, live.pages());
    context.set_output(exports.logged(
        messages,
        &request.monitor.name,
        settings.stack_style.clone(),
    ));
    prepare_naming(&served.host, settings, &source, &catalog);
    live.enable_side()?;
    read_tasks(&served.host, &source, false);
    live.enable(false)?;
    context.set_clock(*live.clock());
    counts.begin(&served.host, settings, live.now())?;
    begin_notes(&context, &catalog);
    print_banner(&served.host, &live, request, &source, counts.roles());
    exports.start(context.stamp(0.0), false);
    let mut run = ServedRun::new(served, (live, counts), exports, request, started);
    let watched = run.watch(source.tasks.as_deref());
    let held = run.counts.hold();
    run.live.disable();
    let sink = &mut run.served;
    let counted =
        run.counts.end_run((sink, |sink| &mut sink.host), &mut run.live, run.schedule.end);
    run.changes.stop(&run.live);
    watched.and(held).and(counted)?;
    run.finish(settings.quiet)
}

/// A run of several monitors.
struct ServedRun {
    served: ServedMonitors,
    live: Live,
    counts: KernelCounts,
    exports: Exports,
    schedule: Schedule,
    changes: MachineChanges,
    boost: Option<RtBoost>,
    cost: Overhead,
    realtime: bool,
    /// The names of the monitors, and of the run as a whole.
    names: Vec<Arc<str>>,
    whole: Arc<str>,
    /// Monitors whose first loss has been reported.
    is_loss_noted: Vec<bool>,
}

impl ServedRun {
    fn new(
        served: ServedMonitors,
        (live, counts): (Live, KernelCounts),
        exports: Exports,
        request: &RunRequest,
        started: Instant,
    ) -> ServedRun {
        let names: Vec<Arc<str>> =
            served.jobs().iter().map(|job| job.name.as_str().into()).collect();
        let boost = raise_priority(&request.options, served.host.context());
        ServedRun {
            is_loss_noted: vec![false; names.len()],
            names,
            whole: request.monitor.name.as_str().into(),
            schedule: Schedule::new(request),
            changes: MachineChanges::begin(&live),
            boost,
            cost: Overhead::start(started),
            realtime: request.options.realtime,
            served,
            live,
            counts,
            exports,
        }
    }

    /// Delivers events until the run ends.
    fn watch(&mut self, tasks: Option<&[i32]>) -> anyhow::Result<()> {
        let mut pace = DrainPace::new(tasks.is_some() || !self.counts.roles().is_empty());
        let context = self.served.host.context().clone();
        loop {
            self.live.switch(&self.served.host.take_switches())?;
            let due = self.schedule.next(&self.served.host) - self.live.horizon();
            let due = due.min(self.schedule.end - self.live.now());
            let most_ms = pace.wait_ms().min(self.counts.wait_ms(self.live.now()));
            self.live.wait((due / 1e6).clamp(0.0, most_ms).ceil() as i32)?;
            let over = tasks.is_some_and(|tids| self.live.have_ended(tids));
            if over {
                context.note(Level::Info, TASKS_ENDED);
            }
            if signal::take_report_request() {
                self.schedule.ask(self.live.now());
            }
            self.deliver_due()?;
            pace.drained(context.printed());
            self.boost.iter_mut().for_each(RtBoost::update);
            self.changes.check(&mut self.live, &context, &mut self.served);
            // A failed write of messages cannot be reported.
            let _ = context.flush();
            if self.served.host.ended() || over || self.live.now() >= self.schedule.end {
                return Ok(());
            }
        }
    }

    /// Delivers the available events, and reports at each boundary that they pass.
    ///
    /// # Errors
    /// The kernel refuses to return its counts.
    fn deliver_due(&mut self) -> anyhow::Result<()> {
        loop {
            let horizon = self.live.horizon();
            self.schedule.skip_missed(horizon);
            self.served.host.skip_missed_timers(horizon);
            let boundary = self.schedule.next(&self.served.host);
            self.live.drain(horizon.min(boundary), &mut self.served);
            let is_over = self.served.host.ended() || boundary >= self.schedule.end;
            let host = &mut self.served.host;
            if is_over || horizon < boundary {
                return self.counts.collect_if_due(host, self.live.now());
            }
            let is_report = boundary >= self.schedule.report_at();
            match is_report {
                true => self.counts.collect(host, self.live.now())?,
                false => self.counts.collect_if_due(host, self.live.now())?,
            }
            host.set_now(boundary);
            host.fire_timers(boundary);
            if is_report {
                let seconds = self.schedule.turn(boundary);
                let lost = self.live.lost(false);
                self.live.look_for_undelivered(false);
                self.report(boundary, seconds, lost, false);
            }
        }
    }

    /// Exports the report of each monitor, and the coverage of the run, which is returned.
    fn report(&mut self, time: f64, seconds: f64, lost: Option<u64>, last: bool) -> Coverage {
        let (served, live, counted) = (&mut self.served, &mut self.live, &self.counts);
        served.host.lost_so_far(time, lost, live.side_lost_beside_events());
        let counts = live.counts();
        let seconds = live.counted_for().unwrap_or(seconds);
        let end = served.host.context().stamp(time);
        let (undelivered, mut of_all) = (counted.undelivered(), Coverage::default());
        counted.add_to(&mut of_all);
        for at in 0..self.names.len() {
            let report = served.report(at, seconds, &counts, last);
            let none = KernelCounts::default();
            let mut all = coverage(&served.host, live, lost, &none, self.exports.unsent());
            let roles = served.jobs()[at].roles.clone();
            let own = undelivered.iter().filter(|(role, _)| roles.contains(&(**role as usize)));
            all.undelivered += own.map(|(_, events)| events).sum::<u64>();
            all.undefined += of_all.undefined;
            let own_lost = lost.and_then(|_| live.lost_of_roles(roles));
            let coverage = served.coverage(at, &all, own_lost);
            let name = &self.names[at];
            let is_noted = &mut self.is_loss_noted[at];
            if last || !*is_noted {
                *is_noted |= note_losses(&served.host, name, &coverage, last);
            }
            self.exports.publish(ExportedInterval {
                monitor: name,
                measured: report.measured,
                parts: &report.parts,
                coverage,
                is_up: served.is_up(at),
                end,
            });
        }
        served.end_reports();
        let coverage = coverage(&served.host, live, lost, counted, self.exports.unsent());
        self.exports.publish(ExportedInterval {
            monitor: &self.whole,
            measured: Vec::new(),
            parts: &[],
            coverage,
            is_up: (0..self.names.len()).all(|at| served.is_up(at)),
            end,
        });
        self.exports.complete(served.host.context());
        coverage
    }

    /// Handles what the rings still hold, exports the last reports and closes the events.
    fn finish(mut self, quiet: bool) -> anyhow::Result<Outcome> {
        let context = self.served.host.context().clone();
        if !self.served.host.interrupted() && self.live.now() < self.schedule.end {
            context.note(Level::Info, "the run ends for all monitors");
        }
        self.served.host.finishing();
        let now = self.live.now().min(self.schedule.end);
        let end = self.counts.end_of_records(self.schedule.end, self.live.now());
        self.live.drain(end, &mut self.served);
        let is_drained = !self.served.host.ended() || self.served.host.interrupted();
        self.changes.end(&mut self.live, &context, &mut self.served, is_drained);
        let lost = self.live.lost(true);
        self.live.look_for_undelivered(true);
        if lost.is_some_and(|lost| lost > 0)
            && let Some(text) = self.cost.starvation_hint(now, self.realtime)
        {
            context.note(Level::Warning, &text);
        }
        self.served.host.set_now(now);
        let seconds = (now - self.schedule.last) / 1e9;
        let coverage = self.report(now, seconds, lost, true);
        self.exports.end(&context);
        // As after each turn: a failure cannot be reported.
        let _ = context.flush();
        self.served.host.leave();
        close(self.live, self.counts, quiet);
        Ok(if coverage.errors > 0 { Outcome::ScriptErrors } else { Outcome::Done })
    }
}

/// Reports what a monitor has missed, if anything. Returns whether it did.
fn note_losses(host: &Host, name: &str, coverage: &Coverage, last: bool) -> bool {
    // A task that ends inside a call is normal, and not a gap.
    let coverage = Coverage { exited: 0, ..*coverage };
    let missed = coverage.problems().into_iter().filter(|(_, count)| *count > 0);
    let missed: Vec<String> = missed.map(|(what, count)| format!("{count} {what}")).collect();
    if missed.is_empty() {
        return false;
    }
    let missed = missed.join(", ");
    let text = match last {
        true => format!("{name}: coverage: {missed}"),
        false => format!("{name}: coverage: {missed}; its coverage metrics count what follows"),
    };
    host.context().note(Level::Warning, &text);
    true
}
