//! A run on a recording: the same roles, filters, views and reports, in the recording's time.

use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

use super::Outcome;
use super::files::Files;
use super::filters::{self, EventOrigin};
use super::recorded_counts::{check_counts, counted, sampled};
use super::recorded_frames::Frames;
use super::recorded_tasks::RecordedTasks;
use super::request::{RunOptions, RunRequest};
use super::schedule::{Overhead, Schedule};
use super::scope::setting;
use super::show::Show;
use super::{database, timeline};
use crate::base::event::slot::Slot;
use crate::base::report::draw::{Level, Stamp};
use crate::base::report::run_record::RunRecord;
use crate::base::text::units::human_ns;
use crate::decode::clock::Clock;
use crate::event::filter::{BoundFilter, FilterInput};
use crate::event::kind::Event;
use crate::script::context::shared::SharedContext;
use crate::script::evsel::role::Role;
use crate::script::host::{Host, Rules};
use crate::script::option::opt;
use crate::source::counts::CountDelta;
use crate::source::replay::{RecordedEntry, RecordingLine, Replay};
use crate::source::{Batch, SideBand, SideBandKind, Sink};
use crate::task::Tasks;

/// A gap is skipped after this many empty reports in a row, or this many timer turns.
const EMPTY_REPORTS: u32 = 10;
const EMPTY_TURNS: u32 = 100_000;

pub(super) fn run(
    mut host: Host,
    request: &RunRequest,
    path: &Path,
    started: Instant,
) -> anyhow::Result<Outcome> {
    let settings = &request.options;
    let replay = Rc::new(Replay::open(path)?);
    let is_watched = |cpu: &u32| settings.cpus.as_ref().is_none_or(|cpus| cpus.contains(cpu));
    let cpus: Vec<u32> = replay.cpus().into_iter().filter(is_watched).collect();
    let processors = replay.processors();
    let setting = setting(request, replay.clone(), cpus.clone())?;
    let files = Files::begin(request)?;
    let options = opt::table(host.lua(), &request.monitor.options, &request.values)?;
    let rules = Rules { max_events: settings.exit_after, order: settings.order };
    host.begin(&options, &setting, rules)?;
    let roles = host.roles();
    let mut batch = Batch::new(roles.len());
    let start = Stamp { wall_ns: replay.wall_ns(), clock_ns: 0 };
    timeline::begin_replayed(request, &host, start, processors)?;
    database::begin(request, &host)?;
    host.attach(batch.addresses())?;
    let out = super::output(request, start, 0)?;
    let frames = Frames::of(&replay);
    let naming = frames.naming();
    let context = host.context().clone();
    context.set_output(out);
    context.print(|out| {
        out.run_record(start, &RunRecord::Begin { cpus: &cpus });
        out.opened(&super::opened(&roles));
    });
    context.set_tasks(Tasks::new(processors));
    context.set_clock(Clock::new(start, 0));
    context.set_naming(naming);
    context.begin_notes();
    request.understood.iter().for_each(|line| context.note(Level::Info, line));
    if settings.selects_tasks() && !replay.has_tasks() {
        let text = "the recording has no FORK lines: -p and -t omit the children of the tasks";
        context.note(Level::Info, text);
    }
    if settings.verbose > 0 {
        for line in filters::explain(&roles, EventOrigin::File) {
            context.note(Level::Info, &line);
        }
    }
    let mut show = Show::new(context.clone(), None, files);
    show.serve(&host, request)?;
    let mut player = Player::new(replay.clone(), frames, settings);
    player.take_roles(roles)?;
    player.switch(&mut host);
    let mut schedule = Schedule::new(request);
    if settings.stats {
        host.watch_compiler()?;
        host.sample_interpreter()?;
    }
    let cost = Overhead::start(started);
    let now = play_all(&mut player, &mut batch, &mut schedule, &mut host, &mut show);
    host.finishing();
    host.set_now(now);
    let seconds = (now - schedule.last) / 1e9;
    let began = show.begin_report();
    let (parts, totals) = host.finish(seconds, &player.take_counts(), settings.total);
    let coverage = host.coverage(player.lost);
    show.last(now, &parts, &totals, &coverage);
    show.metrics(now, &mut host, &parts, &coverage);
    show.files(host.take_flames(), now, &coverage, true);
    show.written(database::complete(&host, &coverage));
    show.end_report(began);
    show.costs(now, settings, &host, (&cost, None, None), &coverage);
    show.end()?;
    Ok(if coverage.errors > 0 { Outcome::ScriptErrors } else { Outcome::Done })
}

/// Plays the whole recording, or up to the end of the run. Returns the time reached.
fn play_all(
    player: &mut Player<'_>,
    batch: &mut Batch,
    schedule: &mut Schedule,
    host: &mut Host,
    show: &mut Show,
) -> f64 {
    let (ordered, context, replay) =
        (host.ordered(), host.context().clone(), player.replay.clone());
    let turn = |entry: &RecordingLine| if ordered { entry.time_ns } else { entry.came_ns };
    let mut entries: Vec<(usize, &RecordingLine)> = replay.entries().iter().enumerate().collect();
    // A stable sort, and cheap: late entries are rare, so most are in order already.
    entries.sort_by_key(|(_, entry)| turn(entry));
    // Without the end of the recorded run, the end of `--duration` is taken.
    let limit = schedule.end;
    schedule.end = replay.end_ns().map_or(limit, |end| limit.min(end as f64));
    let mut now = 0.0;
    for (index, entry) in entries {
        let time = turn(entry) as f64;
        player.play_due(time.min(schedule.end), schedule, host, show);
        if host.ended() || show.closed() {
            return now;
        }
        now = time.min(schedule.end);
        // Events that a live run reads at its end may be later than the end.
        if time > limit {
            break;
        }
        let errors = host.errors();
        player.play(index, entry, batch, &context, host);
        if host.errors() > errors {
            let text = format!("{}: the script failed at this line", replay.place(index));
            context.note(Level::Info, &text);
        }
        player.switch(host);
        show.write_growing_files();
        if host.ended() {
            return now;
        }
    }
    if schedule.end.is_finite() {
        player.play_due(schedule.end, schedule, host, show);
        if !host.ended() && !show.closed() {
            now = schedule.end;
            host.set_now(now);
        }
    }
    now
}

/// Puts entries into batches, for each role that includes them.
pub(super) struct Player<'a> {
    replay: Rc<Replay>,
    filters: Vec<Option<BoundFilter>>,
    roles: Vec<Role>,
    frames: Frames,
    settings: &'a RunOptions,
    tasks: RecordedTasks<'a>,
    counts: Vec<CountDelta>,
    /// The kernel's own count of lost events so far; None if the recording does not contain it.
    lost: Option<u64>,
    /// Beginning of the last loss of each CPU.
    losses: HashMap<u32, f64>,
    /// Roles that the script has turned off.
    off: Vec<bool>,
}

impl<'a> Player<'a> {
    /// Creates a player without roles.
    pub(super) fn new(replay: Rc<Replay>, frames: Frames, settings: &'a RunOptions) -> Self {
        let (filters, roles, counts, off) = Default::default();
        let (tasks, losses) = (RecordedTasks::new(&settings.pids, &settings.tids), HashMap::new());
        let lost = None;
        Player { replay, filters, roles, frames, settings, tasks, counts, lost, losses, off }
    }

    /// Plays for these roles from now on; new ones are on.
    ///
    /// # Errors
    /// A filter does not fit the recording's events, or the recording lacks counts.
    pub(super) fn take_roles(&mut self, roles: Vec<Role>) -> anyhow::Result<()> {
        check_counts(&roles, &self.replay)?;
        self.filters = filters::bind(&roles)?;
        self.off.resize(roles.len(), false);
        self.roles = roles;
        Ok(())
    }

    /// Turns a role on or off.
    pub(super) fn set_enabled(&mut self, role: u32, on: bool) {
        self.off.iter_mut().skip(role as usize).take(1).for_each(|off| *off = !on);
    }

    /// Plays the reports and timers that are due by `time`, when the recording continues.
    ///
    /// The beginning of a long gap is played turn by turn, as in a live run; the rest is one report
    /// and one turn of each timer, as after a pause of a run.
    fn play_due(&mut self, time: f64, schedule: &mut Schedule, host: &mut Host, show: &mut Show) {
        let (mut reports, mut turns, mut skipped) = (0, 0, false);
        loop {
            let boundary = schedule.next(host);
            if boundary > time || boundary >= schedule.end || host.ended() || show.closed() {
                return;
            }
            if !skipped && (reports > EMPTY_REPORTS || turns > EMPTY_TURNS) {
                skipped = true;
                let gap = human_ns((time - schedule.last).max(0.0) as u64);
                let text = format!("the recording has a long gap: one report covers {gap}");
                host.context().note(Level::Info, &text);
                schedule.skip_missed(time);
                host.skip_missed_timers(time);
                continue;
            }
            turns += 1;
            host.set_now(boundary);
            host.fire_timers(boundary);
            if boundary >= schedule.report_at() {
                reports += 1;
                let seconds = schedule.turn(boundary);
                let began = show.begin_report();
                let parts = host.interval(seconds, &self.take_counts());
                let coverage = host.coverage(self.lost);
                show.interval(boundary, &parts, coverage);
                show.metrics(boundary, host, &parts, &coverage);
                show.files(host.take_flames(), boundary, &coverage, false);
                show.end_report(began);
            }
        }
    }

    pub(super) fn play(
        &mut self,
        index: usize,
        entry: &RecordingLine,
        batch: &mut Batch,
        context: &SharedContext,
        sink: &mut dyn Sink,
    ) {
        let time = entry.time_ns as f64;
        let (pid, tid) = (entry.pid, entry.tid);
        match &entry.what {
            RecordedEntry::Event { event, raw, value, .. } => {
                if !entry.comm.is_empty() {
                    context.change_tasks(|tasks| tasks.on_comm(tid, pid, &entry.comm, time));
                }
                let replay = self.replay.clone();
                let Some(event) = replay.event(*event) else { return };
                for role in 0..self.roles.len() {
                    if self.takes(role, entry, event, raw) {
                        self.deliver(role, index, event, raw, *value, batch);
                    }
                }
                // One entry per batch makes a name, timer or limit between two events exact.
                self.flush(batch, sink);
            }
            RecordedEntry::Lost { count, length_ns } => {
                self.lose(entry, *count, *length_ns, sink);
            }
            RecordedEntry::LostSoFar { events, of_tasks } => {
                let (events, of_tasks) = (*events, *of_tasks);
                self.lost = Some(events);
                self.side(entry, SideBandKind::LostSoFar { events, of_tasks }, sink);
            }
            RecordedEntry::Exit => self.side(entry, SideBandKind::Exit { pid, tid }, sink),
            RecordedEntry::Fork { parent_pid, parent_tid } => {
                let (parent_pid, parent_tid) = (*parent_pid, *parent_tid);
                self.tasks.on_fork(tid, parent_pid, parent_tid);
                self.side(entry, SideBandKind::Fork { pid, tid, parent_pid, parent_tid }, sink);
            }
            RecordedEntry::Comm { comm } => {
                self.side(entry, SideBandKind::Comm { pid, tid, comm, exec: false }, sink);
            }
            RecordedEntry::Exec { comm } => {
                self.side(entry, SideBandKind::Comm { pid, tid, comm, exec: true }, sink);
            }
        }
    }

    /// Plays a loss: its time, if the line gives it, then its number of records.
    fn lose(
        &mut self,
        entry: &RecordingLine,
        count: u64,
        length_ns: Option<u64>,
        sink: &mut dyn Sink,
    ) {
        let time = entry.time_ns as f64;
        if let Some(length_ns) = length_ns {
            self.losses.insert(entry.cpu, time);
            let window = SideBandKind::LossWindow { from: time, to: time + length_ns as f64 };
            self.side(entry, window, sink);
        }
        if count > 0 {
            let from = self.losses.get(&entry.cpu).copied().unwrap_or(time);
            self.side(entry, SideBandKind::Lost { count, from, of_tasks: false }, sink);
            self.lost.iter_mut().for_each(|lost| *lost += count);
        }
    }

    /// Returns whether a role takes an event of the recording.
    fn takes(&self, role: usize, entry: &RecordingLine, event: &Event, raw: &[u8]) -> bool {
        let declared = &self.roles[role];
        let (here, watched) = self.watched(entry);
        let cpus = declared.sampling.cpus.as_ref();
        let seen = FilterInput { raw, cpu: entry.cpu, comm: &entry.comm };
        !self.off[role]
            && !declared.event.kind().is_derived()
            && declared.event.name == event.name
            && (here && watched || declared.sampling.all_tasks)
            && cpus.is_none_or(|cpus| cpus.contains(&entry.cpu))
            && self.filters[role].as_ref().is_none_or(|filter| filter.passes(&seen))
    }

    /// Counts the event of the entry at `index` for a role, or adds it to the batch.
    fn deliver(
        &mut self,
        role: usize,
        index: usize,
        event: &Event,
        raw: &[u8],
        value: Option<u64>,
        batch: &mut Batch,
    ) {
        let (entry, sampling) = (&self.replay.entries()[index], &self.roles[role].sampling);
        if sampling.count {
            let per_thread = self.settings.selects_tasks();
            self.counts.push(CountDelta {
                role: role as u32,
                instance: if per_thread { self.tasks.counted_in(entry.tid) } else { entry.cpu },
                value: value.unwrap_or_else(|| counted(event, raw)) as f64,
                share: 1.0,
                scaled: false,
            });
            return;
        }
        let chain = if sampling.stack.is_some() { self.frames.chain_of(index) } else { &[] };
        let (period, ip, addr) = sampled(event, raw);
        batch.push(Slot {
            time: entry.time_ns as f64,
            period,
            ip,
            addr,
            chain: chain.as_ptr(),
            chain_len: chain.len() as u16,
            pid: entry.pid,
            tid: entry.tid,
            cpu: entry.cpu as u16,
            ev: role as u16,
            ..Slot::of(raw)
        });
    }

    fn side(&self, entry: &RecordingLine, what: SideBandKind<'_>, sink: &mut dyn Sink) {
        let (here, mut watched) = self.watched(entry);
        if let SideBandKind::Fork { parent_pid, parent_tid, .. } = what {
            watched |= entry.watched && self.tasks.contains(parent_pid, parent_tid);
        }
        let (time, watched) = (entry.time_ns as f64, here && watched);
        sink.side(SideBand { time, cpu: entry.cpu, watched, what });
    }

    /// Returns whether the entry passes `-C`, and whether it passes `-p` and `-t`.
    fn watched(&self, entry: &RecordingLine) -> (bool, bool) {
        let cpus = self.settings.cpus.as_ref();
        let is_here = cpus.is_none_or(|cpus| cpus.contains(&entry.cpu));
        (is_here, entry.watched && self.tasks.contains(entry.pid, entry.tid))
    }

    fn flush(&self, batch: &mut Batch, sink: &mut dyn Sink) {
        if !batch.is_empty() {
            // SAFETY: the slots point to the recording's own records and chains, which it made by
            // their formats and keeps.
            unsafe { sink.dispatch(batch) };
            batch.clear();
        }
    }

    /// Turns roles on and off as the script has requested since the last call.
    pub(super) fn switch(&mut self, host: &mut Host) {
        for (role, on) in host.take_switches() {
            self.set_enabled(role, on);
        }
    }

    pub(super) fn take_counts(&mut self) -> Vec<CountDelta> {
        std::mem::take(&mut self.counts)
    }
}
