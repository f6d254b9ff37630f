//! A run on the kernel.

use std::io::Write as _;
use std::rc::Rc;
use std::time::Instant;

use anyhow::bail;

use super::Outcome;
use super::request::{HostOptions, RunRequest};
use super::show::Show;
use crate::base::cpulist;
use crate::base::draw::{Level, Stamp, Stats};
use crate::event::catalog::{Catalog, TracefsCatalog};
use crate::event::plan;
use crate::event::sampling::Sampling;
use crate::script::evsel::Role;
use crate::script::guard::{NO_HOOK, hook_stops_compiled_loops};
use crate::script::host::{Host, Rules, Setting};
use crate::script::opt;
use crate::script::option::value::OptionValue;
use crate::source::live::Live;
use crate::source::open::{Opening, Wish};
use crate::sys::child::Workload;
use crate::sys::clock::wall_and_monotonic;
use crate::sys::cpus::online_cpus;
use crate::sys::namespace::kernel_tid;
use crate::sys::tasks::{any_alive, task_names, threads_of};
use crate::sys::tracefs::Tracefs;
use crate::sys::{machine, signal};
use crate::task::{Running, Tasks};

/// An idle ring is drained this often; a busy one wakes us by its watermark.
const DRAIN_MS: f64 = 100.0;

pub(super) fn run(
    mut host: Host,
    request: &RunRequest,
    started: Instant,
) -> anyhow::Result<Outcome> {
    let settings = &request.host;
    let mut workload = workload(settings)?;
    let tracefs = Rc::new(Tracefs::find()?);
    let catalog = catalog(tracefs.clone())?;
    let cpus = cpus(settings)?;
    let tasks = tasks(settings, workload.as_ref())?;
    let per_thread = tasks.is_some();
    let setting = Setting {
        catalog,
        cpus: cpus.clone(),
        perins: request.values.get("perins").is_some_and(OptionValue::is_given),
        per_thread,
        memory: settings.lua_mem as usize,
        totals: settings.total,
    };
    let options = opt::table(host.lua(), &request.monitor.options, &request.values)?;
    let rules = Rules { max_events: settings.exit_after, order: settings.order };
    host.begin(&options, &setting, rules)?;
    let wish = Wish {
        cpus,
        workload: workload.as_ref().is_some_and(|w| tasks.as_deref() == Some(&[w.pid()])),
        tasks,
        pages: settings.mmap_pages.or(request.monitor.pages).map(|pages| pages as usize),
        watermark: settings.watermark,
        ordered: host.ordered(),
        mmap: host.wants_mmap(),
        watch_self: settings.watch_self,
        own_tid: kernel_tid(&tracefs)?,
    };
    let roles = host.roles();
    let openings = openings(&roles)?;
    let mut live = Live::open(openings, &wish, roles.len())?;
    host.attach(live.batch().addresses())?;
    let (wall_ns, clock_ns) = wall_and_monotonic();
    let out = super::output(request, Stamp { wall_ns, clock_ns }, live.pages())?;
    let processors = wish.cpus.last().map_or(0, |cpu| *cpu as usize + 1);
    host.shared().with(|context| {
        context.out = out;
        context.tasks = Tasks::new(processors);
        let sched = roles.iter().any(|r| r.event.name.starts_with("sched:"));
        context.hide_pid = (sched && !settings.watch_self).then(std::process::id);
    });
    signal::install()?;

    live.enable_side()?;
    let names = task_names();
    host.shared().with(|context| {
        context.tasks.snapshot(names.iter().map(running));
    });
    live.enable(wish.workload)?;
    let clock = *live.clock();
    host.shared().with(|context| context.clock = clock);
    if tracefs.mounted_here {
        let text = format!("mounted tracefs at {}; it stays mounted", tracefs.root().display());
        host.shared().with(|context| context.note(Level::Info, &text));
    }
    if !hook_stops_compiled_loops() {
        host.shared().with(|context| context.note(Level::Warning, NO_HOOK));
    }
    greet(&host, &live, request, &wish);
    if let Some(workload) = &mut workload
        && let Err(why) = workload.start()
    {
        return no_workload(&host, &why);
    }
    let mut show = Show::new(host.shared().clone());
    let mut pace = Pace::new(request);
    let cost = Cost::start(started);
    watch(&mut host, &mut live, &mut show, &mut pace, workload.as_mut(), wish.tasks.as_deref())?;
    finish(host, live, show, &pace, settings, &cost)
}

/// Carries events until something ends the run.
fn watch(
    host: &mut Host,
    live: &mut Live,
    show: &mut Show,
    pace: &mut Pace,
    mut workload: Option<&mut Workload>,
    tasks: Option<&[i32]>,
) -> anyhow::Result<()> {
    let mut first = true;
    loop {
        let due = pace.next(host) - live.now();
        // The first drain comes soon: somebody is waiting for a sign of life.
        let wait = if first { 10.0 } else { (due / 1e6).clamp(0.0, DRAIN_MS) };
        first = false;
        live.wait(wait.ceil() as i32)?;
        let over = match &mut workload {
            Some(workload) => workload.try_wait()?.is_some(),
            None => tasks.is_some_and(|tids| !any_alive(tids)),
        };
        carry(host, live, show, pace);
        for (role, on) in host.take_switches() {
            live.switch(role, on)?;
        }
        if host.ended() || over || show.closed() || live.now() >= pace.end {
            return Ok(());
        }
    }
}

/// Hands on what there is, and reports at each boundary that it passes.
fn carry(host: &mut Host, live: &mut Live, show: &mut Show, pace: &mut Pace) {
    loop {
        let horizon = live.horizon();
        let boundary = pace.next(host);
        live.drain(horizon.min(boundary), host);
        if host.ended() || horizon < boundary || boundary >= pace.end {
            break;
        }
        host.set_now(boundary);
        host.fire_timers(boundary);
        if boundary >= pace.interval_at {
            let seconds = pace.turn(boundary);
            let parts = host.interval(seconds, &live.counts());
            show.interval(boundary, &parts, host.coverage(live.lost(false)));
        }
    }
    show.flush_events();
}

fn finish(
    mut host: Host,
    mut live: Live,
    mut show: Show,
    pace: &Pace,
    settings: &HostOptions,
    cost: &Cost,
) -> anyhow::Result<Outcome> {
    live.disable();
    host.finishing();
    let now = live.now();
    live.drain(f64::INFINITY, &mut host);
    let lost = live.lost(true);
    if live.side_lost() > 0 {
        let text = format!("{} records of tasks were lost: names may be stale", live.side_lost());
        host.shared().with(|context| context.note(Level::Warning, &text));
    }
    host.set_now(now);
    let parts = host.finish((now - pace.last) / 1e9, &live.counts());
    let totals = if settings.total { host.totals() } else { Vec::new() };
    let mut coverage = host.coverage(lost);
    coverage.disordered += live.disordered();
    show.last(now, &parts, &totals, &coverage);
    if settings.stats {
        let stats = cost.stats(&coverage);
        show.draw(now, |out, stamp| out.stats(stamp, &stats));
    }
    show.end()?;
    Ok(if coverage.errors > 0 { Outcome::ScriptErrors } else { Outcome::Done })
}

/// When the next report or timer is due, in nanoseconds of the run.
struct Pace {
    interval: f64,
    interval_at: f64,
    last: f64,
    end: f64,
}

impl Pace {
    fn new(request: &RunRequest) -> Self {
        let settings = &request.host;
        let interval =
            settings.interval_ns.or(request.monitor.every_ns).map_or(f64::INFINITY, |ns| ns as f64);
        let end = settings.duration_ns.map_or(f64::INFINITY, |ns| ns as f64);
        Pace { interval, interval_at: interval, last: 0.0, end }
    }

    fn next(&self, host: &Host) -> f64 {
        self.interval_at.min(host.next_timer().unwrap_or(f64::INFINITY)).min(self.end)
    }

    /// Passes an interval's boundary; gives its length in seconds.
    fn turn(&mut self, now: f64) -> f64 {
        let seconds = (now - self.last) / 1e9;
        self.last = now;
        self.interval_at += self.interval;
        seconds
    }
}

/// What this process has used since the events were enabled.
struct Cost {
    cpu_before_ns: u64,
    start_ms: f64,
}

impl Cost {
    fn start(started: Instant) -> Self {
        let start_ms = started.elapsed().as_secs_f64() * 1e3;
        Cost { cpu_before_ns: machine::own_cpu_ns(), start_ms }
    }

    fn stats(&self, coverage: &crate::base::coverage::Coverage) -> Stats {
        let own_cpu_ns = machine::own_cpu_ns();
        let used = own_cpu_ns.saturating_sub(self.cpu_before_ns);
        Stats {
            events: coverage.events,
            own_cpu_ns,
            ns_per_event: used as f64 / coverage.events.max(1) as f64,
            lost: coverage.lost,
            max_rss_kb: machine::max_rss_kb(),
            start_ms: self.start_ms,
        }
    }
}

fn workload(settings: &HostOptions) -> anyhow::Result<Option<Workload>> {
    if settings.workload.is_empty() {
        return Ok(None);
    }
    // Forked before anything else: no thread, no ring and no Lua is copied into it.
    Ok(Some(Workload::prepare(&settings.workload)?))
}

fn catalog(tracefs: Rc<Tracefs>) -> anyhow::Result<Rc<dyn Catalog>> {
    let events = tracefs.events()?;
    let formats = Box::new(move |sys: &str, name: &str| tracefs.format(sys, name));
    Ok(Rc::new(TracefsCatalog::new(&events, formats).with_pmus(Box::new(read_pmu))))
}

fn read_pmu(path: &str) -> std::io::Result<String> {
    std::fs::read_to_string(format!("/sys/bus/event_source/devices/{path}"))
}

fn cpus(settings: &HostOptions) -> anyhow::Result<Vec<u32>> {
    let online = online_cpus();
    let Some(asked) = &settings.cpus else { return Ok(online) };
    if let Some(absent) = asked.iter().find(|cpu| !online.contains(cpu)) {
        bail!("-C: CPU {absent} is not online; online are {}", cpulist::format(&online));
    }
    Ok(asked.clone())
}

/// The threads to watch: of `-p`, of `-t`, or the workload's; None is every task.
fn tasks(settings: &HostOptions, workload: Option<&Workload>) -> anyhow::Result<Option<Vec<i32>>> {
    if let Some(workload) = workload {
        // With -C, -a, -p or -t, the workload is only the clock: those are watched while it runs.
        let clock = settings.cpus.is_some() || settings.all_cpus;
        if settings.pids.is_empty() && settings.tids.is_empty() {
            return Ok((!clock).then(|| vec![workload.pid()]));
        }
    }
    if settings.pids.is_empty() && settings.tids.is_empty() {
        return Ok(None);
    }
    let mut tids: Vec<i32> = settings.tids.iter().map(|tid| *tid as i32).collect();
    for &tid in &tids {
        if !any_alive(&[tid]) {
            bail!("-t: there is no thread {tid}; it has ended, or lives in another pid namespace");
        }
    }
    for &pid in &settings.pids {
        let threads = threads_of(pid as i32).map_err(|_| {
            anyhow::anyhow!(
                "-p: there is no process {pid}; it has ended, or lives in another pid namespace"
            )
        })?;
        tids.extend(threads);
    }
    tids.sort_unstable();
    tids.dedup();
    Ok(Some(tids))
}

fn openings(roles: &[Role]) -> anyhow::Result<Vec<Opening>> {
    plan::plan(roles)?.into_iter().map(|planned| opening(planned, roles)).collect()
}

/// A planned opening, with the filter that each of its roles checks itself.
fn opening(planned: plan::Opening<Sampling>, roles: &[Role]) -> anyhow::Result<Opening> {
    let mut checked = Vec::new();
    for index in planned.roles {
        let own = match (planned.recheck, &roles[index].filter, planned.event.format()) {
            (true, Some(filter), Some(format)) => Some(filter.bind(&planned.event.name, format)?),
            _ => None,
        };
        checked.push((index as u32, own));
    }
    Ok(Opening {
        event: planned.event,
        filter: planned.filter,
        sampling: planned.sampling,
        roles: checked,
    })
}

fn running(task: &crate::sys::tasks::TaskName) -> Running<'_> {
    let number = |n: i32| n.max(0) as u32;
    Running {
        tid: number(task.tid),
        pid: number(task.pid),
        parent_pid: number(task.ppid),
        comm: task.comm.as_bytes(),
    }
}

/// One line that says what is watched: an idle machine shows nothing else for a while.
fn greet(host: &Host, live: &Live, request: &RunRequest, wish: &Wish) {
    let mut names: Vec<String> = host.roles().iter().map(|r| r.event.name.clone()).collect();
    names.dedup();
    let shown = match names.len() {
        0..=4 => names.join(", "),
        n => format!("{} and {} more events", names[..3].join(", "), n - 3),
    };
    let whom = match &wish.tasks {
        Some(tids) if wish.workload => format!("the command (pid {})", tids[0]),
        Some(tids) if tids.len() == 1 => format!("thread {}", tids[0]),
        Some(tids) => format!("{} threads", tids.len()),
        None => format!("CPU {}", cpulist::format(&wish.cpus)),
    };
    let order = if wish.ordered { "in order" } else { "unordered" };
    host.shared().with(|context| {
        for remark in request.notes.iter().chain(live.remarks()) {
            context.note(Level::Warning, remark);
        }
        let watching = format!("watching {shown} on {whom}; Ctrl-C ends and reports");
        context.note(Level::Info, &watching);
        if request.host.json || request.host.events {
            // Those formats keep stderr free of notes, but somebody may wait there for the moment to begin.
            let _ = writeln!(std::io::stderr(), "perilune: note: {watching}");
        }
        if request.host.verbose > 0 {
            let text = format!("{order}, {} pages a ring, {} files", live.pages(), live.files());
            context.note(Level::Info, &text);
        }
        for (name, fields) in if request.host.verbose > 1 { live.attributes() } else { Vec::new() }
        {
            let fields: Vec<String> =
                fields.iter().map(|(field, value)| format!("{field}={value:#x}")).collect();
            context.note(Level::Info, &format!("{name}: {}", fields.join(" ")));
        }
        // Told at once, not with the first report.
        let _ = context.out.flush();
    });
}

fn no_workload(host: &Host, why: &std::io::Error) -> anyhow::Result<Outcome> {
    host.shared().with(|context| context.note(Level::Error, &why.to_string()));
    Ok(Outcome::NoWorkload)
}
