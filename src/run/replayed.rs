//! A run on a recording: the same roles, filters, views and reports, in the recording's time.

use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

use std::collections::HashMap;

use super::Outcome;
use super::filters::{self, From};
use super::request::{HostOptions, RunRequest};
use super::schedule::{Cost, Schedule};
use super::scope::setting;
use super::show::{Files, Show};
use crate::base::event::slot::Slot;
use crate::base::event::value::Value;
use crate::base::report::draw::{Level, Stamp};
use crate::base::report::frame::{Frame, Space};
use crate::base::text::stack_style::parse_frame;
use crate::base::text::units::human_ns;
use crate::decode::clock::Clock;
use crate::event::filter::{self, Bound};
use crate::event::kind::{Event, is_tracepoint};
use crate::script::context::shared::SharedContext;
use crate::script::evsel::role::Role;
use crate::script::host::{Host, Rules};
use crate::script::option::opt;
use crate::source::counts::CountDelta;
use crate::source::replay::{Happened, RecordingLine, Replay};
use crate::source::{Batch, Happening, SideBand, Sink};
use crate::stack::naming::Naming;
use crate::symbol::Symbolizer;
use crate::task::Tasks;

/// A gap is skipped after this many empty reports in a row, or this many timer turns.
const EMPTY_REPORTS: u32 = 10;
const EMPTY_TURNS: u32 = 100_000;

/// The first of the addresses that stand for the recording's frame names.
const FRAMES: u64 = 0xffff_ffff_0000_0000;

pub(super) fn run(
    mut host: Host,
    request: &RunRequest,
    path: &Path,
    started: Instant,
) -> anyhow::Result<Outcome> {
    let settings = &request.host;
    let replay = Rc::new(Replay::open(path)?);
    let cpus = replay.cpus();
    let processors = cpus.last().map_or(0, |cpu| *cpu as usize + 1);
    let setting = setting(request, replay.clone(), cpus)?;
    let files = Files::begin(request)?;
    let options = opt::table(host.lua(), &request.monitor.options, &request.values)?;
    let rules = Rules { max_events: settings.exit_after, order: settings.order };
    host.begin(&options, &setting, rules)?;
    let roles = host.roles();
    let mut batch = Batch::new(roles.len());
    host.attach(batch.addresses())?;
    let start = Stamp { wall_ns: replay.wall_ns(), clock_ns: 0 };
    let out = super::output(request, start, 0)?;
    let frames = Frames::of(&replay);
    let naming = frames.naming();
    let context = host.context().clone();
    context.set_output(out);
    context.print(|out| out.opened(&super::opened(&roles)));
    context.set_tasks(Tasks::new(processors));
    context.set_clock(Clock::new(start, 0));
    context.set_naming(naming);
    context.begin_notes();
    request.understood.iter().for_each(|line| context.note(Level::Info, line));
    if settings.verbose > 0 {
        for line in filters::explain(&roles, From::File) {
            context.note(Level::Info, &line);
        }
    }
    let mut show = Show::new(context.clone(), None, files);
    show.serve(&host, request)?;
    let mut player = Player::new(replay.clone(), frames, settings);
    player.take_roles(roles)?;
    player.switch(&mut host);
    let ordered = host.ordered();
    let mut pace = Schedule::new(request);
    if settings.stats {
        host.watch_compiler()?;
        host.sample_interpreter()?;
    }
    let cost = Cost::start(started);
    let mut now = 0.0;
    let turn = |entry: &RecordingLine| if ordered { entry.time_ns } else { entry.came_ns };
    let mut entries: Vec<(usize, &RecordingLine)> = replay.entries().iter().enumerate().collect();
    // A stable sort, and cheap: late entries are rare, so most are in order already.
    entries.sort_by_key(|(_, entry)| turn(entry));
    for (index, entry) in entries {
        let time = turn(entry) as f64;
        player.turns(time.min(pace.end), &mut pace, &mut host, &mut show);
        if host.ended() || show.closed() {
            break;
        }
        now = time.min(pace.end);
        if time > pace.end {
            break;
        }
        let errors = host.errors();
        player.play(index, entry, &mut batch, &context, &mut host);
        if host.errors() > errors {
            let text = format!("{}: the script failed at this line", replay.place(index));
            host.context().note(Level::Info, &text);
        }
        player.switch(&mut host);
        show.write_delays();
        if host.ended() {
            break;
        }
    }
    host.finishing();
    host.set_now(now);
    let seconds = (now - pace.last) / 1e9;
    let (parts, totals) = host.finish(seconds, &player.take_counts(), settings.total);
    let coverage = host.coverage(None);
    show.last(now, &parts, &totals, &coverage);
    show.files(host.take_flames(), now, &coverage, true);
    show.costs(now, settings, &host, &cost, &coverage);
    show.end()?;
    Ok(if coverage.errors > 0 { Outcome::ScriptErrors } else { Outcome::Done })
}

/// The recording's frames as addresses, and the call chain of each entry in these addresses.
pub(super) struct Frames {
    names: Rc<Vec<Frame>>,
    chains: Vec<Vec<u64>>,
}

/// The frames of a recording, found by the addresses that stand for them.
pub(super) struct RecordedFrames(Rc<Vec<Frame>>);

impl Symbolizer for RecordedFrames {
    fn frames(
        &mut self,
        _space: Space,
        address: u64,
        kernel: bool,
        _caller: bool,
        out: &mut Vec<Frame>,
    ) {
        let known = address.checked_sub(FRAMES).and_then(|at| self.0.get(at as usize));
        out.push(known.cloned().unwrap_or(Frame { address, kernel, ..Frame::default() }));
    }
}

impl Frames {
    /// Reads the frames of a recording.
    pub(super) fn of(replay: &Replay) -> Self {
        let (mut names, mut known) = (Vec::new(), HashMap::new());
        let mut address = |name: &String| {
            *known.entry(name.clone()).or_insert_with(|| {
                names.push(parse_frame(name));
                FRAMES + names.len() as u64 - 1
            })
        };
        let chain =
            |entry: &RecordingLine, address: &mut dyn FnMut(&String) -> u64| match &entry.what {
                Happened::Event { stack, .. } => stack.iter().map(address).collect(),
                _ => Vec::new(),
            };
        let chains = replay.entries().iter().map(|e| chain(e, &mut address)).collect();
        Frames { names: Rc::new(names), chains }
    }

    /// Returns the names for the addresses that stand for them.
    pub(super) fn naming(&self) -> Naming {
        Naming::new(Box::new(RecordedFrames(self.names.clone())))
    }
}

/// Binds each role's filter to its event's format.
fn filters(roles: &[Role]) -> anyhow::Result<Vec<Option<Bound>>> {
    let bind = |role: &Role| match (&role.filter, role.event.format()) {
        (Some(filter), Some(format)) => Ok(Some(filter.bind(&role.event.name, format)?)),
        _ => Ok(None),
    };
    roles.iter().map(bind).collect()
}

/// Returns what a live slot of a counter's sample contains: the period, the instruction's address
/// and the data address.
fn sampled(event: &Event, raw: &[u8]) -> (u64, u64, u64) {
    let format = event.format().filter(|_| !is_tracepoint(&event.name));
    let field = |name: &str| match format?.field(name)?.read(raw) {
        Ok(Value::Uint(value) | Value::Pointer(value)) => Some(value),
        Ok(Value::Int(value)) => u64::try_from(value).ok(),
        _ => None,
    };
    (field("period").unwrap_or(1), field("ip").unwrap_or(0), field("addr").unwrap_or(0))
}

/// Puts entries into batches, for each role that includes them.
pub(super) struct Player<'a> {
    replay: Rc<Replay>,
    filters: Vec<Option<Bound>>,
    roles: Vec<Role>,
    frames: Frames,
    settings: &'a HostOptions,
    counts: Vec<CountDelta>,
    /// Roles that the script has turned off.
    off: Vec<bool>,
}

impl<'a> Player<'a> {
    /// Creates a player without roles.
    pub(super) fn new(replay: Rc<Replay>, frames: Frames, settings: &'a HostOptions) -> Self {
        let (filters, roles, counts, off) = Default::default();
        Player { replay, filters, roles, frames, settings, counts, off }
    }

    /// Plays for these roles from now on; new ones are on.
    ///
    /// # Errors
    /// A filter does not fit the recording's events.
    pub(super) fn take_roles(&mut self, roles: Vec<Role>) -> anyhow::Result<()> {
        self.filters = filters(&roles)?;
        self.off.resize(roles.len(), false);
        self.roles = roles;
        Ok(())
    }

    /// Turns a role on or off.
    pub(super) fn turn(&mut self, role: u32, on: bool) {
        self.off.iter_mut().skip(role as usize).take(1).for_each(|off| *off = !on);
    }

    /// Plays the reports and timers that are due by `time`, when the recording continues.
    ///
    /// The beginning of a long gap is played turn by turn, as in a live run; the rest is one report
    /// and one turn of each timer, as after a pause of a run.
    fn turns(&mut self, time: f64, pace: &mut Schedule, host: &mut Host, show: &mut Show) {
        let (mut reports, mut turns, mut skipped) = (0, 0, false);
        loop {
            let boundary = pace.next(host);
            if boundary > time || boundary >= pace.end || host.ended() || show.closed() {
                return;
            }
            if !skipped && (reports > EMPTY_REPORTS || turns > EMPTY_TURNS) {
                skipped = true;
                let gap = human_ns((time - pace.last).max(0.0) as u64);
                let text = format!("the recording has a long gap: one report covers {gap}");
                host.context().note(Level::Info, &text);
                pace.skip_missed(time);
                host.skip_missed_timers(time);
                continue;
            }
            turns += 1;
            host.set_now(boundary);
            host.fire_timers(boundary);
            if boundary >= pace.report_at() {
                reports += 1;
                let seconds = pace.turn(boundary);
                let parts = host.interval(seconds, &self.take_counts());
                let coverage = host.coverage(None);
                show.interval(boundary, &parts, coverage);
                show.files(host.take_flames(), boundary, &coverage, false);
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
        let (here, watched) = self.watched(entry);
        match &entry.what {
            Happened::Event { event, raw, value, .. } => {
                if !entry.comm.is_empty() {
                    context.change_tasks(|tasks| tasks.on_comm(tid, pid, &entry.comm));
                }
                let Some(event) = self.replay.event(*event) else { return };
                let seen = filter::FilterInput { raw, cpu: entry.cpu, comm: &entry.comm };
                for (role, declared) in self.roles.iter().enumerate() {
                    let passes = self.filters[role].as_ref().is_none_or(|f| f.passes(&seen));
                    let only = declared.sampling.cpus.as_ref();
                    let watched = (here && watched || declared.sampling.everyone)
                        && only.is_none_or(|cpus| cpus.contains(&entry.cpu));
                    if self.off[role] || !watched || declared.event.name != event.name || !passes {
                        continue;
                    }
                    let role = role as u32;
                    if declared.sampling.count {
                        let value = value.unwrap_or(1) as f64;
                        let (instance, share) = (entry.cpu, 1.0);
                        self.counts.push(CountDelta {
                            role,
                            instance,
                            value,
                            share,
                            scaled: false,
                        });
                        continue;
                    }
                    let chain = if declared.sampling.stack.is_some() {
                        &self.frames.chains[index][..]
                    } else {
                        &[]
                    };
                    let (period, ip, addr) = sampled(event, raw);
                    batch.push(Slot {
                        time,
                        period,
                        ip,
                        addr,
                        chain: chain.as_ptr(),
                        chain_len: chain.len() as u16,
                        pid,
                        tid,
                        cpu: entry.cpu as u16,
                        ev: role as u16,
                        ..Slot::of(raw)
                    });
                }
                // One entry per batch makes a name, timer or limit between two events exact.
                self.flush(batch, sink);
            }
            Happened::Lost { count, length_ns } => {
                self.side(
                    entry,
                    Happening::Hole { from: time, to: time + *length_ns as f64 },
                    sink,
                );
                let lost = Happening::Lost { count: *count, from: time, of_tasks: false };
                self.side(entry, lost, sink);
            }
            Happened::Exit => self.side(entry, Happening::Exit { pid, tid }, sink),
            Happened::Fork { parent_pid, parent_tid } => {
                let (parent_pid, parent_tid) = (*parent_pid, *parent_tid);
                self.side(entry, Happening::Fork { pid, tid, parent_pid, parent_tid }, sink);
            }
            Happened::Comm { comm } => {
                self.side(entry, Happening::Comm { pid, tid, comm, exec: false }, sink);
            }
            Happened::Exec { comm } => {
                self.side(entry, Happening::Comm { pid, tid, comm, exec: true }, sink);
            }
        }
    }

    fn side(&self, entry: &RecordingLine, what: Happening<'_>, sink: &mut dyn Sink) {
        let (here, mut watched) = self.watched(entry);
        if let Happening::Fork { parent_pid, parent_tid, .. } = what {
            let s = self.settings;
            watched |= s.pids.contains(&parent_pid) || s.tids.contains(&parent_tid);
        }
        let (time, watched) = (entry.time_ns as f64, here && watched);
        sink.side(SideBand { time, cpu: entry.cpu, watched, what });
    }

    /// Returns whether the entry passes `-C`, and whether it passes `-p` and `-t`.
    fn watched(&self, entry: &RecordingLine) -> (bool, bool) {
        let s = self.settings;
        let cpu = s.cpus.as_ref().is_none_or(|cpus| cpus.contains(&entry.cpu));
        let everyone = s.pids.is_empty() && s.tids.is_empty();
        (cpu, everyone || s.pids.contains(&entry.pid) || s.tids.contains(&entry.tid))
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
            self.turn(role, on);
        }
    }

    pub(super) fn take_counts(&mut self) -> Vec<CountDelta> {
        std::mem::take(&mut self.counts)
    }
}
