//! Checks the machine once a second during a run, and reports CPUs that go offline and come back,
//! steps of the wall clock, and late timers.

use crate::base::report::draw::Level;
use crate::script::context::shared::SharedContext;
use crate::source::Sink;
use crate::source::live::Live;
use crate::source::live::clocks::ClockReadings;
use crate::source::live::hotplug::CpuCheck;
use crate::sys::clock::wall_and_monotonic;

/// Nanoseconds between two checks.
const CHECK_NS: f64 = 1e9;
/// Every tenth check is a close one, and includes the rates of clocks.
const CLOSE_CHECKS: u32 = 10;
/// A smaller change within a second may be slewing, and is not reported.
const STEP_NS: i128 = 500_000_000;

/// The state at the last check; before the run, no state.
#[derive(Default)]
pub(super) struct MachineChanges {
    next: f64,
    checks: u32,
    /// Wall clock minus the run's clock, nanoseconds.
    offset: i128,
    began: ClockReadings,
    judged: ClockReadings,
    /// Readings when the events were disabled.
    stopped: ClockReadings,
    /// A clock rate was reported, which is done once.
    is_rate_noted: bool,
}

impl MachineChanges {
    /// Starts from the current state of the machine.
    pub(super) fn begin(live: &Live) -> MachineChanges {
        let began = live.clock_readings();
        MachineChanges {
            next: live.now() + CHECK_NS,
            checks: 0,
            offset: offset_ns(),
            judged: began.clone(),
            stopped: ClockReadings::default(),
            began,
            is_rate_noted: false,
        }
    }

    /// Checks the machine if a check is due.
    pub(super) fn check(&mut self, live: &mut Live, context: &SharedContext, sink: &mut dyn Sink) {
        let now = live.now();
        if now < self.next {
            return;
        }
        self.next = now + CHECK_NS;
        self.checks += 1;
        let closely = self.checks.is_multiple_of(CLOSE_CHECKS);
        self.check_now(
            if closely { CpuCheck::Close } else { CpuCheck::Brief },
            live,
            context,
            sink,
        );
        if closely && !self.began.is_empty() {
            let readings = live.clock_readings();
            let judged = std::mem::replace(&mut self.judged, readings);
            self.note_rates(&self.judged.clone(), &judged, context);
        }
    }

    fn check_now(
        &mut self,
        check: CpuCheck,
        live: &mut Live,
        context: &SharedContext,
        sink: &mut dyn Sink,
    ) {
        let mut notes = live.follow_cgroups(matches!(check, CpuCheck::Last));
        notes.extend(live.follow_cpus(check, sink));
        notes.extend(live.take_unscheduled());
        let offset = offset_ns();
        let step = offset - self.offset;
        self.offset = offset;
        if step.abs() >= STEP_NS {
            notes.push(format!(
                "the wall clock moved by {:+.3} s against the clock of the run (it was set, or the \
                 machine was suspended): times of day continue from the start of the run",
                step as f64 / 1e9
            ));
        }
        for text in notes {
            context.note(Level::Warning, &text);
        }
    }

    /// Reads the clocks after events have been disabled, while the rings may still hold some.
    pub(super) fn stop(&mut self, live: &Live) {
        self.stopped = live.clock_readings();
    }

    /// Checks a last time, after the rings were drained. `is_drained` is false if they still hold
    /// samples that are not needed, as after -N or `stop`.
    pub(super) fn end(
        &mut self,
        live: &mut Live,
        context: &SharedContext,
        sink: &mut dyn Sink,
        is_drained: bool,
    ) {
        self.check_now(CpuCheck::Last, live, context, sink);
        if !is_drained {
            return;
        }
        let stopped = std::mem::take(&mut self.stopped).with_samples_of(&live.clock_readings());
        self.note_rates(&stopped, &self.began.clone(), context);
    }

    fn note_rates(&mut self, now: &ClockReadings, before: &ClockReadings, context: &SharedContext) {
        if self.is_rate_noted {
            return;
        }
        for clock in now.off_rate_since(before) {
            self.is_rate_noted = true;
            let text = clock.to_string();
            context.note(Level::Warning, &text);
        }
    }
}

fn offset_ns() -> i128 {
    let (wall, monotonic) = wall_and_monotonic();
    i128::from(wall) - i128::from(monotonic)
}
