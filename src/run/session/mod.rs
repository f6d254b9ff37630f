//! A session: lines are typed while events come. Each line may open events, change them, take them away.
//!
//! One thread runs all of it, as in a run; another one reads the terminal (`console`). Between lines, and while a line
//! waits for events (`run`, `show`), the rings are drained and handlers run. The source is the kernel
//! or a recording, which stands still until a line plays it.

mod ahead;
mod calm;
mod complete;
mod console;
mod definitions;
mod jobs;
mod losses;
mod recorded;
mod source;
mod watched;
mod words;

use std::cell::Cell;
use std::io::{self, Write};
use std::rc::Rc;

use anyhow::Context as _;

use crate::base::coverage::Coverage;
use crate::base::draw::Level;
use crate::output::text::{Look, Text};
use crate::script::guard::{NO_HOOK, hook_stops_compiled_loops};
use crate::script::host::{Host, Rules};
use crate::script::prompt::{CHUNK, Step};
use crate::sys::signal;
use crate::sys::slice;
use ahead::Ahead;
use calm::Calm;
pub use console::{Console, Names, Typed};
use definitions::Definitions;
pub use jobs::{Monitors, Parse};
use source::Source;

use super::Outcome;
use super::request::RunRequest;

/// A batch of one role takes a way of its own, which a session cannot: more roles come.
const ROLES: usize = 2;

/// A ring is drained this often, at least.
const DRAIN_MS: f64 = 50.0;

/// Losses are told this often at most, in nanoseconds.
const TOLD_EVERY: f64 = 1e9;

/// Where a session's words go.
pub struct Outlet {
    /// Results.
    pub results: Box<dyn Write>,
    /// Messages; the same place, if it is a terminal.
    pub messages: Box<dyn Write>,
    /// Whether it is a terminal.
    pub terminal: bool,
}

/// A session that runs.
struct Session<'a> {
    host: Host,
    source: Source<'a>,
    console: Console,
    definitions: Definitions,
    monitors: Monitors,
    loaded: Vec<(mlua::Table, RunRequest)>,
    paces: Vec<jobs::Pace>,
    /// The number of the next line.
    number: usize,
    /// How many remarks about events were told.
    remarks: usize,
    told: Coverage,
    told_at: f64,
    failed: bool,
    /// Why results could not be written, if somebody wanted them.
    unwritten: Option<io::Error>,
    /// Whether the rings hold what there was no time for.
    behind: bool,
    ended: bool,
    terminal: bool,
    /// Whether the prompt of a terminal waits for a line.
    typing: Rc<Cell<bool>>,
    ahead: Ahead,
}

/// Runs a session until its lines end. `begin` is a file to run first, with the name that messages call it by.
///
/// # Errors
/// What keeps it from beginning: a permission, a recording that cannot be read. Results that could not be written, other than for
/// want of a reader.
pub fn run(
    mut host: Host,
    request: &RunRequest,
    monitors: Monitors,
    begin: Option<(String, String)>,
    console: Console,
    outlet: Outlet,
) -> anyhow::Result<Outcome> {
    let settings = &request.host;
    if outlet.terminal {
        signal::install_at_prompt()?;
    } else {
        signal::install()?;
    }
    let (mut source, setting) = Source::begin(request, &console.tids)?;
    source.listen(&console.bell);
    let rules = Rules { max_events: None, order: settings.order };
    source.introduce(&host, request);
    host.begin_session(&setting, rules, &monitors.library)?;
    let (terminal, typing) = (outlet.terminal, Rc::new(Cell::new(false)));
    let look = Look { together: true, ..super::look(settings, source.pages()) };
    host.shared().with(|context| {
        let text = Text::new(outlet.results, outlet.messages, look);
        context.out = match terminal {
            true => Box::new(Calm::new(text, typing.clone())),
            false => Box::new(text),
        };
        context.begin_notes();
    });
    let shared = host.shared().clone();
    host.on_print(Box::new(move |text| shared.with(|context| context.out.line(text))));
    let mut session = Session {
        host,
        source,
        console,
        definitions: Definitions::default(),
        monitors,
        loaded: Vec::new(),
        paces: Vec::new(),
        number: 1,
        remarks: 0,
        told: Coverage::default(),
        told_at: 0.0,
        failed: false,
        unwritten: None,
        behind: false,
        ended: false,
        terminal,
        ahead: Ahead::default(),
        typing,
    };
    slice::ask_for_short_turns();
    tell(&session.host, &request.notes);
    tell(&session.host, &request.understood);
    tell(&session.host, &session.source.remarks());
    if !hook_stops_compiled_loops() {
        tell(&session.host, &[NO_HOOK.to_owned()]);
    }
    if let Some((chunk, text)) = begin {
        session.run_lines(&chunk, &text);
        session.number = 1;
    }
    session.go_on();
    session.live()?;
    session.end();
    if let Some(why) = session.unwritten {
        return Err(why).context("failed to write the results");
    }
    Ok(if session.failed && !terminal { Outcome::ScriptErrors } else { Outcome::Done })
}

/// Says things that are not as they should be.
fn tell(host: &Host, remarks: &[String]) {
    host.shared().with(|context| {
        remarks.iter().for_each(|remark| context.note(Level::Warning, remark));
    });
}

impl Session<'_> {
    /// Carries events and runs lines, until there are no more lines.
    fn live(&mut self) -> anyhow::Result<()> {
        while !self.ended {
            if self.source.stands_still() {
                let typed = self.console.wait();
                self.console.heard();
                self.take(typed);
            } else {
                self.wait(DRAIN_MS)?;
                self.behind = self.source.drain(&mut self.host);
                self.report_due();
                while !self.ended
                    && let Some(typed) = self.console.take()
                {
                    self.take(typed);
                }
                self.stopped_by_itself();
                self.flush();
                self.tell_losses(TOLD_EVERY);
            }
            self.heed_signals();
        }
        Ok(())
    }

    /// At a terminal, an interrupt that is counted between lines was meant for a line that has just
    /// ended, or for one that was just sent; without a terminal it ends the session, as SIGTERM
    /// does.
    fn heed_signals(&mut self) {
        self.ended |= signal::told_to_end() || (!self.terminal && signal::interrupts() > 0);
        if signal::interrupts() > 0 {
            // The line that it was meant for may have come meanwhile.
            match self.console.take() {
                Some(typed) => self.take(typed),
                None => signal::forget_interrupts(),
            }
            slice::step_back_from_brought();
        }
        if signal::take_report_request() {
            self.report_all();
        }
    }

    fn take(&mut self, typed: Typed) {
        match typed {
            Typed::Line(text) => {
                self.typing.set(false);
                self.enter(&text);
                self.ended |= signal::told_to_end();
                signal::forget_interrupts();
                slice::step_back_from_brought();
                if !self.ended {
                    self.go_on();
                }
            }
            Typed::Names { before, reply } => {
                // Whoever asked may have given up.
                let _ = reply.send(complete::complete(self, &before));
            }
            Typed::End => self.ended = true,
        }
    }

    /// Waits for the next line.
    fn go_on(&self) {
        self.console.go_on();
        self.typing.set(self.terminal);
    }

    /// Runs a line to its end, and shows what it gives.
    fn enter(&mut self, text: &str) {
        self.run_lines(CHUNK, &words::as_lua(text));
    }

    /// The same for Lua as it stands.
    fn run_lines(&mut self, chunk: &str, line: &str) {
        let opened = self.host.roles().len();
        let mut step = self.host.enter(chunk, line, self.number);
        self.number += line.lines().count().max(1);
        let outcome = loop {
            step = match step {
                Step::Asked(what, args) => {
                    let answer = words::answer(self, &what, &args);
                    self.host.answer(answer.map_err(|why| format!("{why:#}")))
                }
                Step::Done(values) => break Ok(values),
                Step::Failed(why) => break Err(why),
            };
        };
        let changed = self.apply().map_err(|why| format!("{why:#}"));
        match outcome.and_then(|values| changed.map(|()| values)) {
            Ok(values) => {
                let (defined, needed) = self.host.line_defined();
                if defined {
                    self.definitions.add(line, opened..self.host.roles().len(), needed);
                }
                // What its own words return is not asked for; `p` alone is.
                let named = line.chars().all(|c| c.is_ascii_alphanumeric() || "_.[]".contains(c));
                let shown = values.iter().filter(|value| named || !self.host.is_evsel(value));
                let shown: Vec<&mlua::Value> = shown.collect();
                shown.into_iter().for_each(|value| self.show(value));
            }
            Err(why) => self.fail(&why),
        }
        self.flush();
    }

    /// Makes true what a line has changed: new events, filters, handlers, switches.
    fn apply(&mut self) -> anyhow::Result<()> {
        self.source.attach(&mut self.host)?;
        let remarks = self.host.remarks();
        tell(&self.host, &remarks[self.remarks..]);
        self.remarks = remarks.len();
        let wishes = self.host.take_switches();
        let mut on = wishes.iter().filter(|(_, on)| **on);
        on.try_for_each(|(role, _)| self.host.revive(*role))?;
        self.source.switch(&wishes)?;
        if wishes.values().any(|on| !on) {
            // What came before is handled by the time when it is turned on again.
            self.source.settle_down(&mut self.host);
        }
        Ok(())
    }

    /// Lets events come for a while: those of `roles` beside what is on anyway.
    fn carry(
        &mut self,
        time: Option<f64>,
        count: Option<u64>,
        roles: &[u32],
    ) -> anyhow::Result<()> {
        self.apply()?;
        self.flush();
        self.host.limit_events(count);
        self.source.switch(&roles.iter().map(|role| (*role, true)).collect())?;
        let carried = self.carry_events(time);
        self.source.switch(&roles.iter().map(|role| (*role, false)).collect())?;
        self.source.settle_down(&mut self.host);
        // Why a handler stopped it was said when it did.
        self.host.take_stop();
        self.host.limit_events(None);
        // Ctrl-C ends the wait, not what the line does with it.
        signal::forget_interrupts();
        self.tell_losses(0.0);
        carried
    }

    /// Lets events come for so many nanoseconds, or until there were enough, or Ctrl-C, or the recording ends.
    fn carry_events(&mut self, time: Option<f64>) -> anyhow::Result<()> {
        if self.source.stands_still() {
            self.source.play(time, &mut self.host);
            return Ok(());
        }
        let end = time.map_or(f64::INFINITY, |time| self.source.now() + time);
        while !self.host.interrupted() && !self.host.has_enough() && self.source.now() < end {
            self.wait((end - self.source.now()) / 1e6)?;
            self.behind = self.source.drain(&mut self.host);
            self.source.switch(&self.host.take_switches())?;
            self.report_due();
            self.flush();
        }
        Ok(())
    }

    /// Waits for events or for the bell, no longer than that many milliseconds.
    fn wait(&mut self, most: f64) -> anyhow::Result<()> {
        self.ahead.turn(self.source.now(), self.typing.get());
        let report = (self.next_report() - self.source.now()) / 1e6;
        let due = self.source.due(&self.host).min(report).min(most).min(DRAIN_MS);
        // Also while a line runs: it may have been taken before its bell rang, and a bell that is
        // not read ends every further wait at once.
        if self.source.wait(if self.behind { 0.0 } else { due.max(0.0) })? {
            self.console.heard();
        }
        Ok(())
    }

    /// A handler that runs in the background called `stop`.
    fn stopped_by_itself(&mut self) {
        if !self.host.has_enough() {
            return;
        }
        let stopped = self.host.take_stop();
        if stopped.is_some() && self.source.all_off().is_ok() {
            let text = "stopped by a handler: every event is off; its `on` lets it come again";
            self.host.shared().with(|context| context.note(Level::Info, text));
        }
    }

    fn show(&mut self, value: &mlua::Value) {
        if value.is_nil() {
            return;
        }
        let counts = self.source.take_counts();
        match self.host.drawn(value, &counts) {
            Ok(Some(parts)) => {
                self.host.shared().with(|context| context.out.answer(&parts));
            }
            Ok(None) => {
                let text = self.host.text_of(value);
                self.host.shared().with(|context| context.out.line(&text));
            }
            Err(why) => self.fail(&format!("{why:#}")),
        }
    }

    fn fail(&mut self, why: &str) {
        self.failed = true;
        self.host.shared().with(|context| context.note(Level::Error, why));
    }

    fn flush(&mut self) {
        let flushed = self.host.shared().with(|context| context.out.flush());
        let Err(why) = flushed else { return };
        self.ended = true;
        // A reader that went away has seen enough.
        if why.kind() != io::ErrorKind::BrokenPipe {
            self.unwritten.get_or_insert(why);
        }
    }
}
