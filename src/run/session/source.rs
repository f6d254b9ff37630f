//! The source of a session's events: the kernel, or a recording as far as it is played.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use super::super::request::RunRequest;
use super::counts::SessionCounts;
use super::live_source::LiveSource;
use super::replay_source::ReplaySource;
use crate::base::report::coverage::Coverage;
use crate::base::report::draw::Level;
use crate::event::catalog::Catalog;
use crate::script::context::shared::SharedContext;
use crate::script::host::{Host, Setting};
use crate::script::prompt::Prompt;
use crate::source::Sink as _;
use crate::source::counts::CountDelta;
use crate::sys::tracepoint_overhead::TracepointOverhead;

/// Events are handled for this long before the session checks for typed lines.
const TURN: Duration = Duration::from_millis(20);

/// The kernel or a recording, with the counts read last.
pub(super) enum SessionSource<'a> {
    /// The kernel.
    Live(Box<LiveSource>, Vec<CountDelta>),
    /// A recording.
    File(Box<ReplaySource<'a>>, Vec<CountDelta>),
}

impl<'a> SessionSource<'a> {
    /// Opens the source; `tids` are perilune's other threads.
    ///
    /// # Errors
    /// See [`LiveSource::begin`] and [`ReplaySource::begin`].
    pub(super) fn begin(request: &'a RunRequest, tids: &[i32]) -> anyhow::Result<(Self, Setting)> {
        match &request.options.replay {
            Some(path) => {
                let (recorded, setting) = ReplaySource::begin(request, path)?;
                Ok((SessionSource::File(Box::new(recorded), Vec::new()), setting))
            }
            None => {
                let (watched, setting) = LiveSource::begin(request, tids.to_vec())?;
                Ok((SessionSource::Live(Box::new(watched), Vec::new()), setting))
            }
        }
    }

    pub(super) fn set_up_context(&self, context: &SharedContext, request: &RunRequest) {
        match self {
            SessionSource::Live(live, _) => live.set_up_context(context, request),
            SessionSource::File(file, _) => file.set_up_context(context),
        }
    }

    pub(super) fn pages(&self) -> usize {
        match self {
            SessionSource::Live(live, _) => live.live.pages(),
            SessionSource::File(..) => 0,
        }
    }

    /// Returns the messages about how the source was opened.
    pub(super) fn remarks(&self) -> Vec<String> {
        match self {
            SessionSource::Live(live, _) => live.remarks(),
            SessionSource::File(..) => Vec::new(),
        }
    }

    /// Returns the events that exist.
    pub(super) fn catalog(&self) -> Rc<dyn Catalog> {
        match self {
            SessionSource::Live(live, _) => live.catalog(),
            SessionSource::File(file, _) => file.catalog(),
        }
    }

    /// Returns the cost of a record in the kernel.
    pub(super) fn record_overhead(&self) -> Option<TracepointOverhead> {
        match self {
            SessionSource::Live(live, _) => live.record_overhead(),
            SessionSource::File(..) => None,
        }
    }

    /// Returns whether events come only when a line requests them.
    pub(super) fn is_recording(&self) -> bool {
        matches!(self, SessionSource::File(..))
    }

    /// Returns whether only some tasks of this machine are watched.
    pub(super) fn watches_tasks(&self) -> bool {
        matches!(self, SessionSource::Live(live, _) if live.watches_tasks())
    }

    /// Returns whether the tasks of -p or -t were watched and have ended.
    pub(super) fn have_ended(&self) -> bool {
        matches!(self, SessionSource::Live(live, _) if live.have_ended())
    }

    /// Opens new events, switched off, and applies changed filters and handlers. On failure, the
    /// new events are closed, and their handlers and tables are freed.
    ///
    /// # Errors
    /// The kernel refuses an event, or an event lacks a field.
    pub(super) fn attach(&mut self, prompt: &mut Prompt) -> anyhow::Result<()> {
        let known = match self {
            SessionSource::Live(live, _) => live.roles(),
            SessionSource::File(file, _) => file.roles(),
        };
        if self.watches_tasks() && prompt.host.roles().len() > known {
            // Their records name the threads that began since: new events are opened for them, too.
            self.drain_rest(prompt);
        }
        let attached = match self {
            SessionSource::Live(live, _) => live.attach(prompt),
            SessionSource::File(file, _) => file.attach(prompt),
        };
        if attached.is_err() {
            let new: Vec<u32> =
                (known..prompt.host.roles().len()).map(|role| role as u32).collect();
            self.close(&new, prompt)?;
            prompt.forget(&new)?;
        }
        attached
    }

    /// Turns roles on or off, all at once.
    ///
    /// # Errors
    /// The kernel cannot switch an event.
    pub(super) fn switch(
        &mut self,
        switches: &BTreeMap<u32, bool>,
        prompt: &mut Prompt,
    ) -> anyhow::Result<()> {
        match self {
            SessionSource::Live(live, _) => live.switch(switches, prompt)?,
            SessionSource::File(file, _) => {
                switches.iter().for_each(|(role, on)| file.set_enabled(*role, *on));
            }
        }
        Ok(())
    }

    /// Turns these roles on or off.
    ///
    /// # Errors
    /// The kernel cannot switch an event.
    pub(super) fn turn(
        &mut self,
        roles: &[u32],
        on: bool,
        prompt: &mut Prompt,
    ) -> anyhow::Result<()> {
        self.switch(&roles.iter().map(|role| (*role, on)).collect(), prompt)
    }

    /// Turns all roles off.
    ///
    /// # Errors
    /// The kernel cannot switch an event.
    pub(super) fn all_off(&mut self, prompt: &mut Prompt) -> anyhow::Result<()> {
        let SessionSource::Live(live, _) = self else { return Ok(()) };
        let off = (0..live.roles() as u32).map(|role| (role, false)).collect();
        live.switch(&off, prompt)
    }

    /// Closes roles permanently.
    ///
    /// # Errors
    /// The kernel refuses to return what it has counted for them.
    pub(super) fn close(&mut self, roles: &[u32], prompt: &mut Prompt) -> anyhow::Result<()> {
        match self {
            SessionSource::Live(live, _) => live.close(roles, prompt)?,
            SessionSource::File(file, _) => {
                roles.iter().for_each(|role| file.set_enabled(*role, false));
            }
        }
        Ok(())
    }

    /// Records the events of roles that the kernel counts.
    ///
    /// # Errors
    /// The kernel refuses an event, or to return what it has counted.
    pub(super) fn record(&mut self, roles: &[u32], prompt: &mut Prompt) -> anyhow::Result<()> {
        match self {
            SessionSource::Live(live, _) => live.release(roles, prompt),
            SessionSource::File(..) => Ok(()),
        }
    }

    /// Adds what the kernel has counted to the tables; `at_once`, or if it is due.
    pub(super) fn collect(&mut self, prompt: &mut Prompt, at_once: bool) {
        let SessionSource::Live(live, _) = self else { return };
        if let Err(why) = live.collect(prompt, at_once) {
            prompt.host.context().note(Level::Error, &format!("{why:#}"));
        }
    }

    /// Returns the tables that the kernel counts; None for a recording.
    pub(super) fn counted(&self) -> Option<&SessionCounts> {
        match self {
            SessionSource::Live(live, _) => Some(live.counted()),
            SessionSource::File(..) => None,
        }
    }

    /// Returns the time in nanoseconds of the session or of the recording.
    pub(super) fn now(&self) -> f64 {
        match self {
            SessionSource::Live(live, _) => live.live.now(),
            SessionSource::File(file, _) => file.now(),
        }
    }

    /// Returns the milliseconds until a timer is due.
    pub(super) fn due(&self, host: &Host) -> f64 {
        let SessionSource::Live(live, _) = self else { return 0.0 };
        let due = host.next_timer().map_or(f64::INFINITY, |due| due - live.live.horizon());
        (due / 1e6).max(0.0)
    }

    /// Waits for this many milliseconds, until a ring is full enough, or until a message arrives.
    /// Returns whether a message has arrived.
    ///
    /// # Errors
    /// The poll fails.
    pub(super) fn wait(&mut self, ms: f64) -> anyhow::Result<bool> {
        let SessionSource::Live(live, _) = self else { return Ok(false) };
        live.live.wait(ms.ceil() as i32)
    }

    /// Lets a message end the wait; `bell` is readable then.
    pub(super) fn listen(&mut self, bell: &impl std::os::fd::AsFd) {
        if let SessionSource::Live(live, _) = self {
            live.live.listen(bell);
        }
    }

    /// Delivers the available events, for a limited time. Returns whether there are more.
    pub(super) fn drain(&mut self, prompt: &mut Prompt) -> bool {
        let SessionSource::Live(live, _) = self else { return false };
        live.follow_machine(prompt);
        self.collect(prompt, false);
        let SessionSource::Live(live, _) = self else { return false };
        prompt.set_deadline(Some(TURN));
        loop {
            let horizon = live.live.horizon();
            prompt.host.skip_missed_timers(horizon);
            let boundary = prompt.host.next_timer().unwrap_or(f64::INFINITY);
            live.live.drain(horizon.min(boundary), prompt);
            if horizon < boundary || prompt.stopped() {
                return prompt.is_late();
            }
            prompt.host.set_now(boundary);
            prompt.host.fire_timers(boundary);
        }
    }

    /// Plays a recording for this many nanoseconds, until the event limit, Ctrl-C, or its end.
    pub(super) fn play(&mut self, time: Option<f64>, prompt: &mut Prompt) {
        let SessionSource::File(file, _) = self else { return };
        if file.is_over() {
            let text = "the recording has ended: there is nothing left to play";
            super::print_warnings(prompt.host.context(), &[text.to_owned()]);
        }
        file.play(time, prompt);
    }

    /// Delivers what was written until now; with ordering, waits a little for it.
    pub(super) fn drain_rest(&mut self, prompt: &mut Prompt) {
        let SessionSource::Live(live, _) = self else { return };
        prompt.set_deadline(None);
        let now = live.live.now();
        while live.live.horizon() < now {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        live.live.drain(now, prompt);
    }

    /// Reads the counters, and adds what the kernel has counted to the tables, for the next
    /// drawing.
    pub(super) fn count(&mut self, prompt: &mut Prompt) {
        self.collect(prompt, true);
        match self {
            SessionSource::Live(live, counts) => *counts = live.counts(),
            SessionSource::File(file, counts) => *counts = file.counts(),
        }
    }

    /// Returns the counts read last.
    pub(super) fn take_counts(&mut self) -> Vec<CountDelta> {
        match self {
            SessionSource::Live(_, counts) | SessionSource::File(_, counts) => counts.clone(),
        }
    }

    pub(super) fn lost(&mut self, all: bool) -> Option<u64> {
        match self {
            SessionSource::Live(live, _) => {
                live.live.look_for_undelivered(all);
                live.live.lost(all)
            }
            SessionSource::File(..) => None,
        }
    }

    /// Adds the source's own counts of missed events.
    pub(super) fn add_to(&self, mut coverage: Coverage) -> Coverage {
        if let SessionSource::Live(live, _) = self {
            coverage.disordered += live.live.disordered();
            coverage.truncated += live.live.truncated();
            coverage.undelivered = live.live.undelivered();
            live.counted().add_to(&mut coverage);
        }
        coverage
    }
}
