//! A session: lines are typed while events come. Each line may open events, change them, or remove
//! them.
//!
//! A single thread runs the session, as in a run; another one reads the terminal (`console`).
//! Between lines, and while a line waits for events (`run`, `show`), the rings are drained and
//! handlers run. The source is the kernel, or a recording, which is only played when a line
//! requests it.

mod boost;
mod commands;
mod complete;
mod console;
mod cost;
mod count_check;
mod counts;
mod definitions;
mod jobs;
mod live_source;
mod losses;
mod printed;
mod rate_limit;
mod replay_source;
mod requests;
mod role_opening;
mod source;

use std::cell::Cell;
use std::io::{self, Write};
use std::rc::Rc;

use anyhow::Context as _;

use crate::base::report::coverage::Coverage;
use crate::base::report::draw::Level;
use crate::output::text::{TextOptions, TextOutput};
use crate::script::context::shared::SharedContext;
use crate::script::host::{Host, Rules};
use crate::script::prompt::{CHUNK, LineStep, Prompt};
use crate::script::vm::guard::{NO_HOOK, hook_stops_compiled_loops};
use crate::sys::sched;
use crate::sys::signal;
use boost::SessionBoost;
pub use console::{Completions, Console, ConsoleMessage};
use definitions::Definitions;
pub use jobs::{Monitors, Parse};
use rate_limit::RateLimited;
use source::SessionSource;

use super::Outcome;
use super::closing::TASKS_ENDED;
use super::request::RunRequest;

/// Initial number of roles. A single role takes a separate code path, which a session cannot use
/// because roles are added.
const ROLES: usize = 2;

/// A ring is drained this often, at least.
const DRAIN_MS: f64 = 50.0;

/// Losses are reported at most this often, in nanoseconds.
const LOSS_REPORT_NS: f64 = 1e9;

/// Where a session's output goes.
pub struct Outlet {
    /// Results.
    pub results: Box<dyn Write>,
    /// Messages; the same place on a terminal.
    pub messages: Box<dyn Write>,
    /// Whether it is a terminal.
    pub terminal: bool,
}

/// The state of a session.
struct Session<'a> {
    prompt: Prompt,
    source: SessionSource<'a>,
    console: Console,
    definitions: Definitions,
    monitors: Monitors,
    loaded: Vec<(mlua::Table, RunRequest)>,
    schedules: Vec<jobs::JobSchedule>,
    /// The number of the next line.
    number: usize,
    reported: Coverage,
    reported_at: f64,
    failed: bool,
    /// Why results could not be written. A closed pipe is not an error.
    unwritten: Option<io::Error>,
    /// Whether the rings still hold events because the last drain ran out of time.
    behind: bool,
    ended: bool,
    terminal: bool,
    /// Whether the end of the watched tasks was reported.
    has_noted_end: bool,
    /// Whether the prompt of a terminal is waiting for a line.
    typing: Rc<Cell<bool>>,
    ahead: SessionBoost,
}

/// Runs a session until its lines end. `begin` is a file to run first: its name for messages, and
/// its text.
///
/// # Errors
/// The session cannot begin: a permission is missing, or a recording cannot be read. Results could
/// not be written, other than because of a closed pipe.
pub fn run(
    host: Host,
    request: &RunRequest,
    monitors: Monitors,
    begin: Option<(String, String)>,
    console: Console,
    outlet: Outlet,
) -> anyhow::Result<Outcome> {
    let settings = &request.options;
    if outlet.terminal {
        signal::install_at_prompt()?;
    } else {
        signal::install()?;
    }
    let (mut source, setting) = SessionSource::begin(request, &console.tids)?;
    source.listen(&console.bell);
    let rules = Rules { max_events: None, order: settings.order };
    source.set_up_context(host.context(), request);
    let prompt = Prompt::begin(host, &setting, rules, &monitors.library)?;
    let (terminal, typing) = (outlet.terminal, Rc::new(Cell::new(false)));
    let look = TextOptions { together: true, ..super::text_options(settings, source.pages()) };
    let context = prompt.host.context().clone();
    let text = TextOutput::new(outlet.results, outlet.messages, look);
    context.set_output(match terminal {
        true => Box::new(RateLimited::new(text, typing.clone())),
        false => Box::new(text),
    });
    context.begin_notes();
    let printed = context.clone();
    prompt.host.on_print(Box::new(move |text| printed.print(|out| out.line(text))));
    let mut session = Session {
        prompt,
        source,
        console,
        definitions: Definitions::default(),
        monitors,
        loaded: Vec::new(),
        schedules: Vec::new(),
        number: 1,
        reported: Coverage::default(),
        reported_at: 0.0,
        failed: false,
        unwritten: None,
        behind: false,
        ended: false,
        has_noted_end: false,
        terminal,
        ahead: SessionBoost::default(),
        typing,
    };
    sched::request_short_slices();
    print_warnings(&context, &request.notes);
    print_warnings(&context, &request.understood);
    print_warnings(&context, &session.source.remarks());
    if !hook_stops_compiled_loops() {
        print_warnings(&context, &[NO_HOOK.to_owned()]);
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

/// Prints warnings.
fn print_warnings(context: &SharedContext, remarks: &[String]) {
    remarks.iter().for_each(|remark| context.note(Level::Warning, remark));
}

impl Session<'_> {
    /// Delivers events and runs lines until the lines end.
    fn live(&mut self) -> anyhow::Result<()> {
        while !self.ended {
            if self.source.is_recording() {
                let typed = self.console.wait();
                self.console.clear_wakeup();
                self.take(typed);
            } else {
                self.wait(DRAIN_MS)?;
                self.behind = self.source.drain(&mut self.prompt);
                self.report_due();
                while !self.ended
                    && let Some(typed) = self.console.take()
                {
                    self.take(typed);
                }
                self.stopped_by_itself();
                self.flush();
                self.report_losses(LOSS_REPORT_NS);
            }
            self.handle_signals();
        }
        Ok(())
    }

    /// Handles signals. On a terminal, an interrupt counted between lines was meant for a line that
    /// has just ended, or for one that was just sent. Without a terminal it ends the session, as
    /// SIGTERM does.
    fn handle_signals(&mut self) {
        self.ended |= signal::end_requested() || (!self.terminal && signal::interrupts() > 0);
        if signal::interrupts() > 0 {
            // The line that the interrupt was meant for may have arrived by now.
            match self.console.take() {
                Some(typed) => self.take(typed),
                None => signal::forget_interrupts(),
            }
            sched::end_thread_boost();
        }
        if signal::take_report_request() {
            self.report_all();
        }
    }

    fn take(&mut self, typed: ConsoleMessage) {
        match typed {
            ConsoleMessage::Line(text) => {
                self.typing.set(false);
                self.enter(&text);
                self.ended |= signal::end_requested();
                signal::forget_interrupts();
                sched::end_thread_boost();
                if !self.ended {
                    self.go_on();
                }
            }
            ConsoleMessage::Names { before, reply } => {
                // The requester may have given up.
                let _ = reply.send(complete::complete(self, &before));
            }
            ConsoleMessage::End => self.ended = true,
        }
    }

    /// Requests the next line.
    fn go_on(&self) {
        self.console.go_on();
        self.typing.set(self.terminal);
    }

    /// Runs a line to its end, and shows its result.
    fn enter(&mut self, text: &str) {
        self.run_lines(CHUNK, &requests::as_lua(text));
    }

    /// Runs Lua code as it is.
    fn run_lines(&mut self, chunk: &str, line: &str) {
        let opened = self.prompt.host.roles().len();
        // The line may read the tables.
        self.source.collect(&mut self.prompt, true);
        let mut step = self.prompt.enter(chunk, line, self.number);
        self.number += line.lines().count().max(1);
        let outcome = loop {
            step = match step {
                LineStep::Asked(what, args) => {
                    let answer = requests::answer(self, &what, &args);
                    self.prompt.answer(answer.map_err(|why| format!("{why:#}")))
                }
                LineStep::Done(values) => break Ok(values),
                LineStep::Failed(why) => break Err(why),
            };
        };
        let changed = self.apply().map_err(|why| format!("{why:#}"));
        match outcome.and_then(|values| changed.map(|()| values)) {
            Ok(values) => {
                let (defined, needed) = self.prompt.line_defined();
                if defined {
                    self.definitions.add(line, opened..self.prompt.host.roles().len(), needed);
                }
                // An evsel that a call returns is not shown; the value of `p` alone is.
                let named = line.chars().all(|c| c.is_ascii_alphanumeric() || "_.[]".contains(c));
                let shown = values.iter().filter(|value| named || !self.prompt.is_evsel(value));
                let shown: Vec<&mlua::Value> = shown.collect();
                shown.into_iter().for_each(|value| self.show(value));
            }
            Err(why) => self.fail(&why),
        }
        self.flush();
    }

    /// Applies what a line has changed: new events, filters, handlers, switches.
    fn apply(&mut self) -> anyhow::Result<()> {
        self.source.attach(&mut self.prompt)?;
        print_warnings(self.prompt.host.context(), &self.prompt.host.take_remarks());
        let switches = self.prompt.host.take_switches();
        let mut on = switches.iter().filter(|(_, on)| **on);
        on.try_for_each(|(role, _)| self.prompt.revive(*role))?;
        self.source.switch(&switches, &mut self.prompt)?;
        if switches.values().any(|on| !on) {
            // Events recorded before the switch are handled first, in case it is turned on again.
            self.source.drain_rest(&mut self.prompt);
        }
        Ok(())
    }

    /// Delivers events for a while: those of `roles` and those that are on already.
    fn deliver(
        &mut self,
        time: Option<f64>,
        count: Option<u64>,
        roles: &[u32],
    ) -> anyhow::Result<()> {
        self.apply()?;
        self.flush();
        self.prompt.limit_events(count);
        // Only records can be counted one by one.
        let one_by_one = if count.is_some() { roles } else { &[] };
        self.source.record(one_by_one, &mut self.prompt)?;
        self.source.turn(roles, true, &mut self.prompt)?;
        let delivered = self.deliver_until(time);
        self.source.turn(roles, false, &mut self.prompt)?;
        self.source.drain_rest(&mut self.prompt);
        // The reason why a handler stopped it has been printed already.
        self.prompt.take_stop();
        self.prompt.limit_events(None);
        // Ctrl-C ends the wait, not the rest of the line.
        signal::forget_interrupts();
        self.report_losses(0.0);
        delivered
    }

    /// Delivers events for this many nanoseconds, until the event limit, Ctrl-C, or the end of the
    /// recording.
    fn deliver_until(&mut self, time: Option<f64>) -> anyhow::Result<()> {
        if self.source.is_recording() {
            self.source.play(time, &mut self.prompt);
            return Ok(());
        }
        let end = time.map_or(f64::INFINITY, |time| self.source.now() + time);
        while !self.prompt.host.interrupted()
            && !self.prompt.has_enough()
            && self.source.now() < end
        {
            self.wait((end - self.source.now()) / 1e6)?;
            self.behind = self.source.drain(&mut self.prompt);
            let switches = self.prompt.host.take_switches();
            self.source.switch(&switches, &mut self.prompt)?;
            self.report_due();
            self.flush();
        }
        Ok(())
    }

    /// Waits for events or for a message, at most this many milliseconds.
    fn wait(&mut self, most: f64) -> anyhow::Result<()> {
        self.ahead.turn(self.source.now(), self.typing.get());
        let report = (self.next_report() - self.source.now()) / 1e6;
        let due = self.source.due(&self.prompt.host).min(report).min(most).min(DRAIN_MS);
        // Also while a line runs: its message may have been taken before the pipe was written, and
        // an unread byte would end every further wait at once.
        if self.source.wait(if self.behind { 0.0 } else { due.max(0.0) })? {
            self.console.clear_wakeup();
        }
        self.note_end();
        Ok(())
    }

    /// Reports the end of the watched tasks, once.
    fn note_end(&mut self) {
        if !self.has_noted_end && self.source.have_ended() {
            self.has_noted_end = true;
            self.prompt.host.context().note(Level::Info, TASKS_ENDED);
        }
    }

    /// Handles `stop` called by a handler or timer in the background, and the end of Lua's memory.
    fn stopped_by_itself(&mut self) {
        if !self.prompt.has_enough() {
            return;
        }
        let stopped = self.prompt.take_stop();
        if stopped.is_some() && self.source.all_off(&mut self.prompt).is_ok() {
            let text = "stopped: all events are off; `on` of an event turns it on again";
            self.prompt.host.context().note(Level::Info, text);
        }
    }
}
