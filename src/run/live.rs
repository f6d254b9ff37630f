//! Runs a monitor on the kernel: opens its events, and delivers records until the end of the run.

use std::rc::Rc;
use std::time::Instant;

use anyhow::anyhow;

use super::Outcome;
use super::banner::print_banner;
use super::budget::{self, BudgetKeeper, ThinnedEvents};
use super::catalog::MachineCatalog;
use super::closing;
use super::counters_only::check_counters;
use super::exports::Exports;
use super::files::Files;
use super::gaps;
use super::kernel_counts::KernelCounts;
use super::missing_symbols;
use super::openings::{openings_of_run, own_tid};
use super::pace::DrainPace;
use super::prepare::{
    begin_notes, begin_output, enable, prepare_naming, source_request, watch_script,
};
use super::request::{RunOptions, RunRequest};
use super::schedule::{Overhead, Schedule};
use super::scope::{WatchScope, of_rings};
use super::show::Show;
use super::start_at;
use super::upkeep::Upkeep;
use super::workload;
use super::{database, timeline};
use crate::base::report::coverage::Coverage;
use crate::base::report::draw::Level;
use crate::base::text::units::counted;
use crate::script::evsel::role::Role;
use crate::script::host::{Host, Rules};
use crate::script::option::opt;
use crate::source::live::Live;
use crate::source::open::OpeningInterrupted;
use crate::sys::child::Workload;
use crate::sys::sched::RtBoost;
use crate::sys::signal;
use crate::sys::streams;

pub(super) fn run(
    mut host: Host,
    request: &RunRequest,
    started: Instant,
) -> anyhow::Result<Outcome> {
    let settings = &request.options;
    budget::check(request)?;
    let mut workload = workload::prepare(settings)?;
    let catalog = Rc::new(MachineCatalog::default());
    let scope = WatchScope::of(request, workload.as_ref())?;
    let setting = scope.setting(request, catalog.clone())?;
    let files = Files::begin(request)?;
    let options = opt::table(host.lua(), &request.monitor.options, &request.values)?;
    let rules = Rules { max_events: settings.exit_after, order: settings.order };
    host.begin(&options, &setting, rules)?;
    let roles = host.roles();
    check_counters(&roles, settings)?;
    let mut openings = openings_of_run(&host, request, &roles, scope.cgroups.as_ref(), &catalog)?;
    let cpus = of_rings(&scope.cpus, &mut openings);
    let exports = Exports::begin(settings, host.context())?;
    budget::weigh(request, &roles, &mut openings, scope.tasks.is_some())?;
    let own_tid = own_tid(&catalog, &roles)?;
    let own_tids = own_tid.into_iter().chain(exports.tids()).collect();
    let mut source = source_request(&mut host, request, scope, cpus, own_tids, workload.as_ref());
    if let Err(why) =
        workload::load(workload.as_mut(), &roles, &mut source, settings, host.context())
    {
        return workload::not_loaded(why, settings);
    }
    let mut upkeep = Upkeep::open(&host, request, &roles, &source, &mut openings)?;
    upkeep.counts.take_written(&mut host)?;
    signal::install()?;
    let mut live = match Live::open(openings, &source, roles.len()) {
        Ok(live) => live,
        Err(why) => return not_opened(why, request, &roles),
    };
    begin_growing_files(request, &host)?;
    attach(&mut host, &live, &roles, settings)?;
    let screen = begin_output(&host, request, &mut live, &roles, &exports)?;
    let context = host.context().clone();
    prepare_naming(&host, settings, &source, &catalog);
    watch_script(&mut host, settings)?;
    if !start_at::wait(settings.start_at, settings.quiet, started)? {
        return ended_before_start();
    }
    upkeep.look(&mut live, &source)?;
    enable(&host, &mut live, &source, workload.is_some())?;
    upkeep.counts.begin(&host, settings, live.now())?;
    begin_notes(&context, &catalog);
    if let Some(workload) = &mut workload
        && let Err(why) = workload.start()
    {
        return workload::fail(&host, &why, settings);
    }
    print_banner(&host, &live, request, &source, upkeep.counts.roles());
    let mut show = Show::new(context, screen, files);
    show.export(request, exports);
    show.serve(&host, request)?;
    show.raise();
    let mut schedule = Schedule::new(request);
    let cost = Overhead::start(started);
    let tasks = source.tasks.as_deref();
    upkeep.begin(&mut host, &mut live, settings, &schedule)?;
    let watched = watch(
        &mut host,
        &mut live,
        &mut show,
        &mut schedule,
        workload.as_mut(),
        tasks,
        &mut upkeep,
    );
    let watched = watched.and(upkeep.disable(&mut host, &mut live));
    let counted = upkeep.counts.end_run((&mut host, |host| host), &mut live, schedule.end);
    upkeep.changes.stop(&live);
    let ended = workload::ended(workload.as_mut());
    watched.and(counted).inspect_err(|_| workload::end(workload.as_mut(), host.context()))?;
    let outcome = finish(host, live, show, &schedule, request, &cost, (upkeep, workload))?;
    Ok(outcome.of_workload(ended))
}

/// Creates the files that are written while the run lasts.
fn begin_growing_files(request: &RunRequest, host: &Host) -> anyhow::Result<()> {
    timeline::begin(request, host)?;
    database::begin(request, host)
}

/// Returns the outcome of a run that the user ended while it waited for `--start-at`.
fn ended_before_start() -> anyhow::Result<Outcome> {
    streams::print_message("note: ended before the time of --start-at; there is no report");
    Ok(Outcome::Done)
}

/// Connects the script to the open events.
pub(super) fn attach(
    host: &mut Host,
    live: &Live,
    roles: &[Role],
    settings: &RunOptions,
) -> anyhow::Result<()> {
    for refused in live.refused() {
        host.filter_here(refused.role, refused.rest.clone())?;
    }
    let sched = roles.iter().any(|r| r.event.is_scheduler_event());
    host.context().hide_process((sched && !settings.watch_self).then(std::process::id));
    host.attach(live.batch().addresses())?;
    Ok(())
}

/// Returns the outcome of a run whose events were not opened because the user ended it.
///
/// # Errors
/// The kernel refused an event.
pub(super) fn not_opened(
    why: anyhow::Error,
    request: &RunRequest,
    roles: &[Role],
) -> anyhow::Result<Outcome> {
    if !why.is::<OpeningInterrupted>() {
        return Err(workload::refusal(why, request, roles));
    }
    streams::print_message(&format!("note: {why}; there is no report"));
    Ok(Outcome::Done)
}

/// Delivers events until the run ends.
fn watch(
    host: &mut Host,
    live: &mut Live,
    show: &mut Show,
    schedule: &mut Schedule,
    mut workload: Option<&mut Workload>,
    tasks: Option<&[i32]>,
    upkeep: &mut Upkeep,
) -> anyhow::Result<()> {
    let polls = workload.is_some() || tasks.is_some() || !upkeep.counts.roles().is_empty();
    let (mut first, mut pace) = (true, DrainPace::new(polls));
    loop {
        live.switch(&host.take_switches())?;
        let report = schedule.report_or_end();
        let holds = upkeep.budget.as_ref().is_some_and(BudgetKeeper::is_holding);
        let most_ms = upkeep.wait_ms(live, report);
        // With ordering, an item is due only once the horizon has passed it; a shorter wait would
        // spin. Timers wait for the records of a slice.
        let next = if holds { report } else { schedule.next(host) };
        let due = (next - live.horizon()).min(schedule.end - live.now());
        // Drain early the first time, so that the user sees output soon.
        let wait = if first { 10.0 } else { (due / 1e6).clamp(0.0, pace.wait_ms().min(most_ms)) };
        first = false;
        live.mute(!show.listens());
        let typed = live.wait(wait.ceil() as i32)?;
        let over = match &mut workload {
            Some(workload) => workload.try_wait()?.is_some(),
            None => tasks.is_some_and(|tids| live.have_ended(tids)),
        };
        if over && workload.is_none() {
            host.context().note(Level::Info, closing::TASKS_ENDED);
        }
        let quit = show.handle_input(typed);
        if signal::take_report_request() {
            schedule.ask(live.now());
        }
        let report = schedule.report_or_end();
        if !upkeep.holds(host, live, report)? {
            deliver_due(host, live, show, schedule, &mut upkeep.counts)?;
        }
        pace.drained(host.context().printed());
        upkeep.boost.iter_mut().for_each(RtBoost::update);
        let context = host.context().clone();
        upkeep.changes.check(live, &context, host);
        let report = schedule.report_or_end();
        let exceeds = upkeep.exceeds(host, live, report)?;
        if exceeds || host.ended() || quit || over || show.closed() || live.now() >= schedule.end {
            return Ok(());
        }
    }
}

/// Delivers the available events, and reports at each boundary that they pass.
///
/// # Errors
/// The kernel refuses to return its counts.
fn deliver_due(
    host: &mut Host,
    live: &mut Live,
    show: &mut Show,
    schedule: &mut Schedule,
    counts: &mut KernelCounts,
) -> anyhow::Result<()> {
    loop {
        let horizon = live.horizon();
        schedule.skip_missed(horizon);
        host.skip_missed_timers(horizon);
        let boundary = schedule.next(host);
        live.drain(horizon.min(boundary), host);
        if host.ended() || horizon < boundary || boundary >= schedule.end {
            break;
        }
        match boundary >= schedule.report_at() {
            true => counts.collect(host, live.now())?,
            false => counts.collect_if_due(host, live.now())?,
        }
        host.set_now(boundary);
        host.fire_timers(boundary);
        if boundary >= schedule.report_at() {
            let seconds = schedule.turn(boundary);
            let lost = live.lost(false);
            live.look_for_undelivered(false);
            host.lost_so_far(boundary, lost, live.side_lost_beside_events());
            let counters = live.counts();
            let began = show.begin_report();
            let parts = host.interval(live.counted_for().unwrap_or(seconds), &counters);
            let coverage = coverage(host, live, lost, counts, show.unsent());
            show.interval(boundary, &parts, coverage);
            show.metrics(boundary, host, &parts, &coverage);
            show.files(host.take_flames(), boundary, &coverage, false);
            show.end_report(began);
        }
    }
    counts.collect_if_due(host, live.now())?;
    show.flush_events();
    Ok(())
}

/// Returns what the script and the source know about missed events; `lost` is the kernel's own
/// count, `unsent` that of an OTLP sender.
pub(super) fn coverage(
    host: &Host,
    live: &Live,
    lost: Option<u64>,
    counts: &KernelCounts,
    unsent: u64,
) -> Coverage {
    let mut coverage = host.coverage(lost);
    coverage.disordered += live.disordered();
    coverage.truncated += live.truncated();
    coverage.undelivered = live.undelivered();
    coverage.thinned = live.thinned();
    counts.add_to(&mut coverage);
    coverage.unsent = unsent;
    coverage
}

fn finish(
    mut host: Host,
    mut live: Live,
    mut show: Show,
    schedule: &Schedule,
    request: &RunRequest,
    cost: &Overhead,
    (upkeep, mut workload): (Upkeep, Option<Workload>),
) -> anyhow::Result<Outcome> {
    let Upkeep { mut changes, mut counts, budget, .. } = upkeep;
    let settings = &request.options;
    show.lower();
    host.finishing();
    // With ordering, events between the end of `--duration` and the disabling stay in the rings:
    // they are neither handled nor counted as lost.
    let now = live.now().min(schedule.end);
    live.drain(counts.end_of_records(schedule.end, live.now()), &mut host);
    let (context, is_drained) = (host.context().clone(), !host.ended() || host.interrupted());
    changes.end(&mut live, &context, &mut host, is_drained);
    let lost_at_end = live.lost(true);
    live.look_for_undelivered(true);
    if live.side_lost() > 0 {
        let lost = counted(live.side_lost(), "task record");
        let text = format!("{lost} lost: task names may be stale");
        host.context().note(Level::Warning, &text);
    }
    let notes =
        [gaps::undelivered(&live), gaps::unread_texts(&live), gaps::prepared_elsewhere(&live)];
    for text in notes.into_iter().flatten() {
        host.context().note(Level::Warning, &text);
    }
    if lost_at_end.is_some_and(|lost| lost > 0)
        && let Some(text) = cost.starvation_hint(now, settings.realtime)
    {
        host.context().note(Level::Warning, &text);
    }
    // Calls that are open at the event that ends the run are not older than that.
    host.set_now(host.satisfied_at().map_or(now, |at| at.min(now)));
    host.lost_so_far(now, lost_at_end, live.side_lost_beside_events());
    let counters = live.counts();
    let seconds = live.counted_for().unwrap_or((now - schedule.last) / 1e9);
    let began = show.begin_report();
    let (parts, totals) = host.finish(seconds, &counters, settings.total);
    let coverage = coverage(&host, &live, lost_at_end, &counts, show.unsent());
    missing_symbols::print_notes(host.context());
    let gap = gaps::no_events(&host, request, &coverage, now);
    show.remark(gap.or_else(|| gaps::no_ends(&host, live.watches_tasks())).as_deref());
    show.last(now, &parts, &totals, &coverage);
    show.metrics(now, &mut host, &parts, &coverage);
    show.files(host.take_flames(), now, &coverage, true);
    show.written(database::complete(&host, &coverage));
    show.end_report(began);
    // After the reports, which read the names and the memory of its processes.
    workload::end(workload.as_mut(), host.context());
    let events = ThinnedEvents { live: &mut live, counts: &mut counts };
    let spent = budget.as_ref().map(|budget| (budget, budget.stats(&events)));
    show.remark(spent.map(|(budget, spent)| budget.summary(&spent)).as_deref());
    let spent = spent.map(|(_, spent)| spent);
    show.costs(now, settings, &host, (cost, spent, counts.program_ns()), &coverage);
    let exceeded = budget.as_ref().and_then(BudgetKeeper::exceeded);
    let shown = show.end();
    host.leave();
    closing::close(live, counts, settings.quiet);
    shown?;
    exceeded.map_or(Ok(()), |why| Err(anyhow!(why)))?;
    Ok(if coverage.errors > 0 { Outcome::ScriptErrors } else { Outcome::Done })
}
