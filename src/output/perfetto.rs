//! A run as a trace for Perfetto (<https://ui.perfetto.dev>), streamed to a file.
//!
//! The file is a sequence of `TracePacket`s; the numbers of their fields are those of
//! protos/perfetto/trace/trace_packet.proto in Perfetto's repository.
//!
//! - Events that Perfetto knows from ftrace become events of a bundle per CPU (`ftrace`), from
//!   which it derives the states of threads, who woke whom, and its own tables.
//! - Any other event is an instant on the track of its thread, its fields are annotations.
//! - A sample, and any event with a call chain, is a `PerfSample`. Each such event has a packet
//!   sequence of its own, because the defaults of a sequence name the event.
//! - Spans are slices on lanes (`tracks`); tasks are packets of the process tree.
//!
//! Timestamps are `CLOCK_BOOTTIME`, Perfetto's default clock: the clock of the events plus the time
//! that the machine was suspended before the run. A clock snapshot relates it to the others.
//!
//! Packets are collected in memory and written whole, so a run that is killed leaves a file that is
//! readable up to its last whole packet.

use std::io::{self, Write};

use crate::base::event::value::Value;
use crate::base::report::coverage::Coverage;
use crate::base::report::draw::{OpenedEvent, Stamp};
use crate::base::report::timeline::{
    Timeline, TimelineEvent, TimelineSpan, TimelineTask, TimelineThread,
};
use annotation::{EventNumbers, begin_event, put_annotation, put_cell, put_field};
use ftrace::CpuBundle;
use intern::{Interned, begin_packet};
use role::TracedRole;
use samples::put_sample_defaults;
use tracks::{RUN, Tracks};
use wire::{put_bytes, put_int, put_length, put_message, put_text, put_uint};

mod annotation;
mod ftrace;
mod intern;
mod role;
mod samples;
mod tracks;
mod wire;

/// Collected bytes that are written at once.
const BUFFER: usize = 256 << 10;

/// Complete packets are written after this time even if they are few.
const WAIT_NS: u64 = 1_000_000_000;

/// Packet sequences: of bundles, tasks and clocks; of track events; the first one of samples.
const SEQUENCE: [u64; 3] = [1, 2, 3];

/// `TrackEvent.type`.
const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;
const INSTANT: u64 = 3;

/// The machine that a trace is of.
#[derive(Clone, Debug, Default)]
pub struct TracedMachine {
    /// The kernel's release, from which Perfetto knows the meaning of a task's state; empty if it
    /// is unknown.
    pub release: String,
    /// The wall clock and the event clock at the same moment.
    pub clocks: Stamp,
    /// `CLOCK_BOOTTIME` minus the clock of the events.
    pub suspended_ns: u64,
    /// Number of CPUs.
    pub cpus: u32,
}

/// Writes a trace.
pub struct Perfetto {
    out: Box<dyn Write>,
    /// Whole packets that are not written yet.
    packets: Vec<u8>,
    /// The packet that is being made.
    packet: Vec<u8>,
    body: Vec<u8>,
    suspended_ns: u64,
    roles: Vec<TracedRole>,
    bundles: Vec<CpuBundle>,
    strings: Interned,
    is_first: bool,
    tracks: Tracks,
    written_at: u64,
    counts: Counts,
    failure: Option<io::Error>,
}

#[derive(Default)]
struct Counts {
    events: u64,
    spans: u64,
    samples: u64,
}

impl Perfetto {
    /// Begins a trace: its clocks and its machine.
    pub fn new(out: Box<dyn Write>, machine: &TracedMachine) -> Perfetto {
        let mut perfetto = Perfetto {
            out,
            packets: Vec::with_capacity(BUFFER + BUFFER / 4),
            packet: Vec::new(),
            body: Vec::new(),
            suspended_ns: machine.suspended_ns,
            roles: Vec::new(),
            bundles: Vec::new(),
            strings: Interned::default(),
            is_first: true,
            tracks: Tracks::new(),
            written_at: 0,
            counts: Counts::default(),
            failure: None,
        };
        let (wall, clock) = (machine.clocks.wall_ns, machine.clocks.clock_ns);
        perfetto.snapshot(wall, clock);
        perfetto.plain_packet(|out| {
            put_message(out, 45, |out| {
                put_message(out, 1, |out| {
                    put_text(out, 1, b"Linux");
                    put_text(out, 3, machine.release.as_bytes());
                });
                put_uint(out, 8, machine.cpus.into());
            });
        });
        perfetto
    }

    /// Appends a `ClockSnapshot`: the wall clock, the monotonic clock and the boot clock.
    fn snapshot(&mut self, wall_ns: i64, clock_ns: u64) {
        const REALTIME: u64 = 1;
        const MONOTONIC: u64 = 3;
        const BOOTTIME: u64 = 6;
        let boot = self.time(clock_ns);
        let clocks = [(REALTIME, wall_ns as u64), (MONOTONIC, clock_ns), (BOOTTIME, boot)];
        self.plain_packet(|out| {
            put_uint(out, 8, boot);
            put_message(out, 6, |out| {
                for (clock, time) in clocks {
                    put_message(out, 1, |out| {
                        put_uint(out, 1, clock);
                        put_uint(out, 2, time);
                    });
                }
                put_uint(out, 2, BOOTTIME);
            });
        });
    }

    fn time(&self, clock_ns: u64) -> u64 {
        clock_ns.wrapping_add(self.suspended_ns)
    }

    /// Appends a packet of the first sequence, which has no state.
    fn plain_packet(&mut self, fill: impl FnOnce(&mut Vec<u8>)) {
        put_message(&mut self.packets, 1, |out| {
            put_uint(out, 10, SEQUENCE[0]);
            fill(out);
        });
        self.write_if_large();
    }

    /// Appends a track event, whose fields are in `body`, to the sequence of track events.
    fn track_packet(&mut self, time: u64) {
        for fresh in std::mem::take(&mut self.tracks.fresh) {
            put_message(&mut self.packets, 1, |out| {
                put_uint(out, 10, SEQUENCE[1]);
                out.extend_from_slice(&fresh);
            });
        }
        self.packet.clear();
        put_uint(&mut self.packet, 8, time);
        begin_packet(&mut self.packet, SEQUENCE[1], &mut self.is_first, &mut self.strings);
        put_bytes(&mut self.packet, 11, &self.body);
        put_bytes(&mut self.packets, 1, &self.packet);
        self.write_if_large();
    }

    /// Forgets numbers if they use too much memory, before the fields of a packet are encoded.
    fn begin_body(&mut self) {
        self.is_first |= self.strings.clear_if_large();
        self.body.clear();
    }

    fn write_bundle(&mut self, cpu: u32) {
        let Some(bundle) = self.bundles.get_mut(cpu as usize).filter(|one| !one.is_empty()) else {
            return;
        };
        // The lengths are known, so that the events are copied once.
        self.body.clear();
        let events = bundle.take(cpu, &mut self.body);
        self.packet.clear();
        put_uint(&mut self.packet, 10, SEQUENCE[0]);
        put_length(&mut self.packet, 1, self.body.len() + events.len());
        self.packet.extend_from_slice(&self.body);
        put_length(&mut self.packets, 1, self.packet.len() + events.len());
        self.packets.extend_from_slice(&self.packet);
        self.packets.extend_from_slice(events);
        self.write_if_large();
    }

    fn bundle(&mut self, cpu: u32) -> &mut CpuBundle {
        let at = cpu as usize;
        if self.bundles.len() <= at {
            self.bundles.resize_with(at + 1, CpuBundle::default);
        }
        &mut self.bundles[at]
    }

    fn write_if_large(&mut self) {
        if self.packets.len() >= BUFFER {
            self.write();
        }
    }

    fn write(&mut self) {
        if self.failure.is_none()
            && let Err(why) = self.out.write_all(&self.packets)
        {
            self.failure = Some(why);
        }
        self.packets.clear();
    }

    /// Adds an instant with the event's fields to the track of its thread.
    fn instant(&mut self, event: &mut TimelineEvent<'_>) {
        self.begin_body();
        let track = self.tracks.of_thread(event.thread, event.cpu);
        let Some(role) = self.roles.get_mut(event.role) else { return };
        let (body, strings) = (&mut self.body, &mut self.strings);
        let numbers = role.numbers(strings);
        begin_event(body, numbers.event, INSTANT, track);
        for (at, value) in event.fields {
            let Some(name) = numbers.fields.get(*at) else { continue };
            put_annotation(body, strings, *name, value);
        }
        self.track_packet(self.time(event.clock_ns));
    }

    /// Adds a sample to the sequence of its event.
    fn sample(&mut self, event: &mut TimelineEvent<'_>) {
        let time = self.time(event.clock_ns);
        let Some(role) = self.roles.get_mut(event.role) else { return };
        role.is_first |= role.stacks.clear_if_large();
        let stack = event.stack.map(|id| role.stacks.stack(id, event.frames));
        let cpu = event.cpu as usize;
        if role.counted.len() <= cpu {
            role.counted.resize(cpu + 1, 0);
        }
        role.counted[cpu] = role.counted[cpu].wrapping_add(event.period);
        self.packet.clear();
        let out = &mut self.packet;
        put_uint(out, 8, time);
        let defaults = role.is_first;
        begin_packet(out, role.sequence, &mut role.is_first, &mut role.stacks);
        if defaults {
            put_sample_defaults(out, &role.name, event.is_sample);
        }
        put_message(out, 66, |out| {
            put_uint(out, 1, event.cpu.into());
            put_uint(out, 2, event.thread.pid.into());
            put_uint(out, 3, event.thread.tid.into());
            if let Some(stack) = stack {
                put_uint(out, 4, stack);
            }
            put_uint(out, 5, if event.in_kernel { 1 } else { 2 });
            put_uint(out, 6, role.counted[cpu]);
        });
        put_bytes(&mut self.packets, 1, &self.packet);
        self.counts.samples += 1;
        self.write_if_large();
    }
}

impl Timeline for Perfetto {
    fn opened(&mut self, events: &[OpenedEvent]) {
        let role = |(at, event)| TracedRole::new(event, SEQUENCE[2] + at as u64);
        self.roles = events.iter().enumerate().map(role).collect();
    }

    #[inline]
    fn event(&mut self, event: &mut TimelineEvent<'_>) {
        self.counts.events += 1;
        if event.is_sample || event.stack.is_some() {
            self.sample(event);
        }
        if event.is_sample {
            return;
        }
        let (time, cpu) = (self.time(event.clock_ns), event.cpu);
        if self.bundles.len() <= cpu as usize {
            self.bundle(cpu);
        }
        let message = self.roles.get(event.role).and_then(|role| role.ftrace.as_ref());
        match (message, self.bundles.get_mut(cpu as usize)) {
            (Some(message), Some(bundle)) => {
                if bundle.push(message, time, event) {
                    self.write_bundle(cpu);
                }
            }
            _ => self.instant(event),
        }
    }

    fn span(&mut self, span: &TimelineSpan<'_>) {
        self.counts.spans += 1;
        self.begin_body();
        let lane = self.tracks.lane(span);
        let (body, strings) = (&mut self.body, &mut self.strings);
        begin_event(body, EventNumbers::of(strings, span.name), SLICE_BEGIN, lane);
        for (name, cell) in span.fields {
            put_cell(body, strings, name.as_bytes(), cell);
        }
        self.track_packet(self.time(span.begin_ns));
        self.body.clear();
        put_uint(&mut self.body, 9, SLICE_END);
        put_uint(&mut self.body, 11, lane);
        self.track_packet(self.time(span.end_ns));
    }

    fn task(&mut self, task: &TimelineTask<'_>) {
        let TimelineTask { thread: TimelineThread { tid, pid, comm }, parent_pid } = *task;
        let signed = |id: u32| i64::from(id.cast_signed());
        self.plain_packet(|out| {
            put_message(out, 2, |out| {
                if tid == pid {
                    put_message(out, 1, |out| {
                        put_int(out, 1, signed(pid));
                        put_int(out, 2, signed(parent_pid));
                        put_text(out, 3, comm);
                        // The command line is the name only.
                        put_uint(out, 9, 1);
                    });
                }
                put_message(out, 2, |out| {
                    put_int(out, 1, signed(tid));
                    put_text(out, 2, comm);
                    put_int(out, 3, signed(pid));
                });
            });
        });
    }

    fn lost(&mut self, clock_ns: u64, cpu: u32, count: u64) {
        self.write_bundle(cpu);
        self.bundle(cpu).lose();
        self.begin_body();
        let (body, strings) = (&mut self.body, &mut self.strings);
        begin_event(body, EventNumbers::of(strings, b"lost events"), INSTANT, RUN);
        put_field(body, strings, b"count", &Value::Uint(count));
        put_field(body, strings, b"cpu", &Value::Uint(cpu.into()));
        self.track_packet(self.time(clock_ns));
    }

    fn flush(&mut self, clock_ns: u64) -> io::Result<()> {
        if clock_ns.saturating_sub(self.written_at) >= WAIT_NS {
            self.written_at = clock_ns;
            (0..self.bundles.len()).for_each(|cpu| self.write_bundle(cpu as u32));
            self.write();
            self.out.flush()?;
        }
        self.failure.take().map_or(Ok(()), Err)
    }

    fn end(&mut self, now: Stamp, coverage: &Coverage) -> io::Result<String> {
        (0..self.bundles.len()).for_each(|cpu| self.write_bundle(cpu as u32));
        self.snapshot(now.wall_ns, now.clock_ns);
        self.begin_body();
        let (body, strings) = (&mut self.body, &mut self.strings);
        begin_event(body, EventNumbers::of(strings, b"coverage"), INSTANT, RUN);
        put_field(body, strings, b"events", &Value::Uint(coverage.events));
        for (name, count) in coverage.gaps() {
            put_field(body, strings, name.as_bytes(), &Value::Uint(count));
        }
        self.track_packet(self.time(now.clock_ns));
        self.write();
        self.out.flush()?;
        let Counts { events, spans, samples } = self.counts;
        let summary = format!("{events} events, {spans} spans, {samples} samples");
        self.failure.take().map_or(Ok(summary), Err)
    }
}

#[cfg(test)]
mod tests;
