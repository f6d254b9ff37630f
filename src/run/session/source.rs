//! What a session takes its events from: the kernel, as they come, or a recording, as far as it is played.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use super::super::request::RunRequest;
use super::recorded::Recorded;
use super::watched::Watched;
use crate::base::coverage::Coverage;
use crate::event::catalog::Catalog;
use crate::script::host::{Host, Setting};
use crate::source::Sink as _;
use crate::source::counts::Count;
use crate::sys::toll::Toll;

/// So long events are handled before the session looks at what is typed.
const TURN: Duration = Duration::from_millis(20);

/// One of the two.
pub(super) enum Source<'a> {
    /// The kernel.
    Live(Box<Watched>, Vec<Count>),
    /// A recording.
    File(Box<Recorded<'a>>, Vec<Count>),
}

impl<'a> Source<'a> {
    /// Begins it; `tids` are our further threads.
    ///
    /// # Errors
    /// See [`Watched::begin`] and [`Recorded::begin`].
    pub(super) fn begin(request: &'a RunRequest, tids: &[i32]) -> anyhow::Result<(Self, Setting)> {
        match &request.host.replay {
            Some(path) => {
                let (recorded, setting) = Recorded::begin(request, path)?;
                Ok((Source::File(Box::new(recorded), Vec::new()), setting))
            }
            None => {
                let (watched, setting) = Watched::begin(request, tids.to_vec())?;
                Ok((Source::Live(Box::new(watched), Vec::new()), setting))
            }
        }
    }

    pub(super) fn introduce(&self, host: &Host, request: &RunRequest) {
        match self {
            Source::Live(live, _) => live.introduce(host, request),
            Source::File(file, _) => file.introduce(host),
        }
    }

    pub(super) fn pages(&self) -> usize {
        match self {
            Source::Live(live, _) => live.live.pages(),
            Source::File(..) => 0,
        }
    }

    /// What a user should hear about how it began.
    pub(super) fn remarks(&self) -> Vec<String> {
        match self {
            Source::Live(live, _) => live.remarks(),
            Source::File(..) => Vec::new(),
        }
    }

    /// The events there are.
    pub(super) fn catalog(&self) -> Rc<dyn Catalog> {
        match self {
            Source::Live(live, _) => live.catalog(),
            Source::File(file, _) => file.catalog(),
        }
    }

    /// What a record costs the kernel.
    pub(super) fn toll(&self) -> Option<Toll> {
        match self {
            Source::Live(live, _) => live.toll(),
            Source::File(..) => None,
        }
    }

    /// Whether nothing comes unless a line asks for it.
    pub(super) fn stands_still(&self) -> bool {
        matches!(self, Source::File(..))
    }

    /// Opens what is new, off, and makes true what was narrowed and replaced. If that fails, what is new is gone: nothing holds its
    /// handlers and their tables.
    ///
    /// # Errors
    /// The kernel's refusal, a field that an event does not have.
    pub(super) fn attach(&mut self, host: &mut Host) -> anyhow::Result<()> {
        let known = match self {
            Source::Live(live, _) => live.roles(),
            Source::File(file, _) => file.roles(),
        };
        let attached = match self {
            Source::Live(live, _) => live.attach(host),
            Source::File(file, _) => file.attach(host),
        };
        if attached.is_err() {
            let new: Vec<u32> = (known..host.roles().len()).map(|role| role as u32).collect();
            self.close(&new);
            host.forget(&new)?;
        }
        attached
    }

    /// Turns roles on or off, all of them at once.
    pub(super) fn switch(&mut self, wishes: &BTreeMap<u32, bool>) -> anyhow::Result<()> {
        match self {
            Source::Live(live, _) => live.live.switch(wishes)?,
            Source::File(file, _) => wishes.iter().for_each(|(role, on)| file.turn(*role, *on)),
        }
        Ok(())
    }

    /// Turns everything off.
    pub(super) fn all_off(&mut self) -> anyhow::Result<()> {
        let Source::Live(live, _) = self else { return Ok(()) };
        let off = (0..live.roles() as u32).map(|role| (role, false)).collect();
        Ok(live.live.switch(&off)?)
    }

    pub(super) fn close(&mut self, roles: &[u32]) {
        match self {
            Source::Live(live, _) => live.close(roles),
            Source::File(file, _) => roles.iter().for_each(|role| file.turn(*role, false)),
        }
    }

    /// Nanoseconds of the session, or of the recording.
    pub(super) fn now(&self) -> f64 {
        match self {
            Source::Live(live, _) => live.live.now(),
            Source::File(file, _) => file.now(),
        }
    }

    /// Milliseconds until a timer is due.
    pub(super) fn due(&self, host: &Host) -> f64 {
        let Source::Live(live, _) = self else { return 0.0 };
        let due = host.next_timer().map_or(f64::INFINITY, |due| due - live.live.horizon());
        (due / 1e6).max(0.0)
    }

    /// Waits so many milliseconds, or until a ring is full enough, or the bell rings, which is true then.
    pub(super) fn wait(&mut self, ms: f64) -> anyhow::Result<bool> {
        let Source::Live(live, _) = self else { return Ok(false) };
        live.live.wait(ms.ceil() as i32)
    }

    /// Lets the bell end a wait.
    pub(super) fn listen(&mut self, bell: &impl std::os::fd::AsFd) {
        if let Source::Live(live, _) = self {
            live.live.listen(bell);
        }
    }

    /// Hands on what there is, for a while; true when there is more.
    pub(super) fn drain(&mut self, host: &mut Host) -> bool {
        let Source::Live(live, _) = self else { return false };
        live.follow_machine(host);
        host.hurry(Some(TURN));
        loop {
            let horizon = live.live.horizon();
            host.skip_missed_timers(horizon);
            let boundary = host.next_timer().unwrap_or(f64::INFINITY);
            live.live.drain(horizon.min(boundary), host);
            if horizon < boundary || host.stopped() {
                return host.is_late();
            }
            host.set_now(boundary);
            host.fire_timers(boundary);
        }
    }

    /// Plays a recording for so many nanoseconds, or until there were enough, or Ctrl-C, or its end.
    pub(super) fn play(&mut self, time: Option<f64>, host: &mut Host) {
        let Source::File(file, _) = self else { return };
        if file.is_over() {
            let text = "the recording has ended: there is nothing left to play";
            super::tell(host, &[text.to_owned()]);
        }
        file.carry(time, host);
    }

    /// Hands on what was written until now: merged, a little later.
    pub(super) fn settle_down(&mut self, host: &mut Host) {
        let Source::Live(live, _) = self else { return };
        host.hurry(None);
        let now = live.live.now();
        while live.live.horizon() < now {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        live.live.drain(now, host);
    }

    /// Reads what the counters added, for what is drawn next.
    pub(super) fn count(&mut self) {
        match self {
            Source::Live(live, counts) => *counts = live.counts(),
            Source::File(file, counts) => *counts = file.counts(),
        }
    }

    /// What was read last.
    pub(super) fn take_counts(&mut self) -> Vec<Count> {
        match self {
            Source::Live(_, counts) | Source::File(_, counts) => counts.clone(),
        }
    }

    pub(super) fn lost(&mut self, all: bool) -> Option<u64> {
        match self {
            Source::Live(live, _) => {
                live.live.look_for_undelivered(all);
                live.live.lost(all)
            }
            Source::File(..) => None,
        }
    }

    /// What the source itself knows of what was missed.
    pub(super) fn add_to(&self, mut coverage: Coverage) -> Coverage {
        if let Source::Live(live, _) = self {
            coverage.disordered += live.live.disordered();
            coverage.truncated += live.live.truncated();
            coverage.undelivered = live.live.undelivered();
        }
        coverage
    }
}
