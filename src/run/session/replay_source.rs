//! A recording as a session's source: played as far as a line requests, and continued from there.

use std::rc::Rc;

use super::super::recorded_frames::Frames;
use super::super::replayed::Player;
use super::super::request::RunRequest;
use super::super::scope::setting;
use crate::base::report::draw::Stamp;
use crate::decode::clock::Clock;
use crate::event::catalog::Catalog;
use crate::script::context::shared::SharedContext;
use crate::script::host::Setting;
use crate::script::prompt::Prompt;
use crate::source::Batch;
use crate::source::counts::CountDelta;
use crate::source::replay::Replay;
use crate::task::Tasks;

/// A recording and its play position.
pub(super) struct ReplaySource<'a> {
    replay: Rc<Replay>,
    player: Player<'a>,
    batch: Batch,
    /// The next entry.
    at: usize,
    /// Nanoseconds of the recording.
    now: f64,
    known: usize,
}

/// Limit of timer turns that are played at once.
const TURNS: u32 = 100_000;

impl<'a> ReplaySource<'a> {
    /// Reads the recording.
    ///
    /// # Errors
    /// The file is not a recording, or the options contradict each other.
    pub(super) fn begin(
        request: &'a RunRequest,
        path: &std::path::Path,
    ) -> anyhow::Result<(ReplaySource<'a>, Setting)> {
        let replay = Rc::new(Replay::open(path)?);
        let setting = setting(request, replay.clone(), replay.cpus())?;
        let player = Player::new(replay.clone(), Frames::of(&replay), &request.options);
        let batch = Batch::new(super::ROLES);
        Ok((ReplaySource { replay, player, batch, at: 0, now: 0.0, known: 0 }, setting))
    }

    /// Gives the context the recording's tasks, clock and frame names.
    pub(super) fn set_up_context(&self, context: &SharedContext) {
        let processors = self.replay.processors();
        let start = Stamp { wall_ns: self.replay.wall_ns(), clock_ns: 0 };
        let naming = Frames::of(&self.replay).naming();
        context.set_tasks(Tasks::new(processors));
        context.set_clock(Clock::new(start, 0));
        context.set_naming(naming);
    }

    /// Applies the events that lines have declared and narrowed.
    ///
    /// # Errors
    /// A filter does not fit an event.
    pub(super) fn attach(&mut self, prompt: &mut Prompt) -> anyhow::Result<()> {
        let changes = prompt.prepare_changes(self.known)?;
        let roles = prompt.host.roles();
        let new = self.known..roles.len();
        self.known = roles.len();
        self.batch.set_roles(roles.len());
        self.player.take_roles(roles)?;
        new.for_each(|role| self.player.set_enabled(role as u32, false));
        prompt.host.attach(self.batch.addresses())?;
        changes.narrowed.into_iter().try_for_each(|role| prompt.revive(role))
    }

    /// Returns the number of roles.
    pub(super) fn roles(&self) -> usize {
        self.known
    }

    /// Plays this many nanoseconds, or up to the end.
    pub(super) fn play(&mut self, time: Option<f64>, prompt: &mut Prompt) {
        let end = time.map_or(f64::INFINITY, |time| self.now + time);
        let (replay, context) = (self.replay.clone(), prompt.host.context().clone());
        while let Some(entry) = replay.entries().get(self.at) {
            let time = entry.time_ns as f64;
            self.timers(time.min(end), prompt);
            if time > end || prompt.host.interrupted() || prompt.has_enough() {
                break;
            }
            self.now = time;
            self.at += 1;
            self.player.play(self.at - 1, entry, &mut self.batch, &context, prompt);
            for (role, on) in prompt.host.take_switches() {
                self.set_enabled(role, on);
            }
        }
        // Without a time, the rest of the recorded run is played.
        let end = match self.replay.end_ns() {
            Some(recorded) if time.is_none() && !prompt.host.interrupted() => {
                self.now.max(recorded as f64)
            }
            _ => end,
        };
        if end.is_finite() && !prompt.has_enough() {
            self.timers(end, prompt);
            self.now = end;
        }
        prompt.host.set_now(self.now);
    }

    fn timers(&mut self, until: f64, prompt: &mut Prompt) {
        for _ in 0..TURNS {
            let Some(due) = prompt.host.next_timer().filter(|due| *due <= until) else { return };
            prompt.host.set_now(due);
            prompt.host.fire_timers(due);
        }
        prompt.host.skip_missed_timers(until);
    }

    /// Returns whether the recording has been played to its end.
    pub(super) fn is_over(&self) -> bool {
        self.at >= self.replay.entries().len()
    }

    /// Returns the events that exist.
    pub(super) fn catalog(&self) -> Rc<dyn Catalog> {
        self.replay.clone()
    }

    pub(super) fn now(&self) -> f64 {
        self.now
    }

    pub(super) fn set_enabled(&mut self, role: u32, on: bool) {
        self.player.set_enabled(role, on);
    }

    pub(super) fn counts(&mut self) -> Vec<CountDelta> {
        self.player.take_counts()
    }
}
