//! Monitors inside a session: `run("task-state", { than = "10ms" })`, `load`, `jobs`, `stop`.

use std::ffi::OsString;
use std::fmt::Display;

use anyhow::{Context as _, anyhow, bail, ensure};
use mlua::{Table, Value};

use super::Session;
use crate::base::text::units::counted;
use crate::run::request::RunRequest;
use crate::script::host::job::{Job, JobOptions};
use crate::script::load::library::Library;
use crate::script::load::monitor::Monitor;
use crate::script::option::OptionSpec;
use crate::script::option::opt;
use crate::script::option::value::OptionValue;

/// How monitors are found, and how their arguments are parsed.
pub struct Monitors {
    /// The folders and the bundle that are searched.
    pub library: Library,
    /// The host's options, whose names no monitor may use.
    pub taken: Vec<OptionSpec>,
    /// Parses a monitor's arguments.
    pub parse: Parse,
}

/// Parses the arguments of a monitor into a request; takes the monitor, its name and the arguments.
pub type Parse = fn(&Monitor, &str, &[OsString]) -> anyhow::Result<RunRequest>;

/// The report times of a job.
#[derive(Debug)]
pub(super) struct JobSchedule {
    number: usize,
    every: f64,
    last: f64,
    next: f64,
    begun: f64,
}

impl Session<'_> {
    /// `load(name, "arguments")`: loads a monitor with its arguments, and does not start it.
    ///
    /// # Errors
    /// The monitor is not found or does not load, or its arguments are invalid.
    pub(super) fn load(&mut self, name: &str, words: &[OsString]) -> anyhow::Result<Value> {
        let script = self.monitors.library.find(name)?;
        let monitor =
            self.prompt.load_job(&script, &self.monitors.library, &self.monitors.taken)?;
        let request = (self.monitors.parse)(&monitor, name, words)?;
        let table = monitor.table;
        self.loaded.push((table.clone(), request));
        Ok(Value::Table(table))
    }

    /// `run(name, options)` and `run(load(…))`: starts a monitor. On a recording, plays it to its
    /// end.
    ///
    /// # Errors
    /// The monitor cannot be loaded, needs an option that a session does not support, or fails to
    /// start.
    pub(super) fn start(&mut self, what: &Value, options: &Value) -> anyhow::Result<String> {
        let table = match what {
            Value::Table(table) => table.clone(),
            Value::String(name) => {
                let words = words_of(options)?;
                let loaded = self.load(&name.to_string_lossy(), &words)?;
                loaded.as_table().context("run: `load` returned no monitor")?.clone()
            }
            other => bail!(
                "run needs a time, a number of events or a monitor, not a {}",
                other.type_name()
            ),
        };
        let at = self.loaded.iter().position(|(loaded, _)| *loaded == table);
        let at = at.context(
            "run: this is not a monitor that `load` returned; write run(load(\"NAME\"))",
        )?;
        let (_, request) = self.loaded.remove(at);
        if let Some(file) = request.file_at_end() {
            bail!("run: --{file} is not available at a prompt; run the monitor from a shell");
        }
        ensure!(
            !request.monitor.whole_cpus || !self.source.watches_tasks(),
            "run: {} watches whole CPUs, but this prompt watches only some tasks; start it \
             without -p, -t and --cgroup",
            request.monitor.name
        );
        let perins = request.values.get("perins").is_some_and(OptionValue::is_given);
        let options =
            opt::table(self.prompt.host.lua(), &request.monitor.options, &request.values)?;
        let known = self.prompt.host.roles().len();
        let options = JobOptions {
            table: &options,
            perins,
            rate: request.rate(),
            stack: request.stack()?,
            given: &request.given,
            first_table: self.prompt.host.tables(),
        };
        let begun = self.prompt.begin_job(&request.monitor, &options);
        let attached = self.source.attach(&mut self.prompt);
        let number = match begun.and_then(|number| attached.map(|()| number)) {
            Ok(number) => number,
            Err(why) => {
                let roles: Vec<u32> =
                    (known..self.prompt.host.roles().len()).map(|role| role as u32).collect();
                self.source.close(&roles, &mut self.prompt)?;
                let last = self.prompt.jobs().last().filter(|job| job.roles.start >= known);
                if let Some(number) = last.map(|job| job.number) {
                    self.prompt.end_job(number)?;
                }
                return Err(why);
            }
        };
        // Includes switches that the line requested before.
        let mut wished = self.prompt.host.take_switches();
        for role in known..self.prompt.host.roles().len() {
            wished.entry(role as u32).or_insert(true);
        }
        self.source.switch(&wished, &mut self.prompt)?;
        let every = request.interval_ns().map_or(f64::INFINITY, |ns| ns as f64);
        let now = self.source.now();
        self.schedules.push(JobSchedule {
            number,
            every,
            last: now,
            next: now + every,
            begun: now,
        });
        if !self.source.is_recording() {
            return Ok(format!("{number} {}: stop({number}) ends it", request.monitor.name));
        }
        self.deliver(None, None, &[])?;
        self.stop_job(number)?;
        Ok(String::new())
    }

    /// Returns the number of the monitor that the argument of `stop` selects: its number or name.
    ///
    /// # Errors
    /// It is another value, or the name is not that of exactly one monitor.
    pub(super) fn job_number(&self, what: &Value) -> anyhow::Result<usize> {
        let name = match what {
            Value::Integer(number) => {
                let unsigned = usize::try_from(*number);
                return unsigned.map_err(|_| no_monitor(number));
            }
            Value::Number(number) => return Err(no_monitor(number)),
            Value::String(name) => name.to_string_lossy(),
            _ => bail!("stop takes the number or the name of a monitor; `jobs` lists them"),
        };
        let named = self.prompt.jobs().iter().filter(|job| job.name == name);
        match *named.map(|job| job.number).collect::<Vec<_>>() {
            [number] => Ok(number),
            [] => Err(no_monitor(&format!("'{name}'"))),
            _ => {
                bail!("stop: several monitors are named '{name}'; pass a number: `jobs` lists them")
            }
        }
    }

    /// `stop(n)`: ends a monitor, with its report.
    ///
    /// # Errors
    /// No monitor has this number, or its events cannot be switched off.
    pub(super) fn stop_job(&mut self, number: usize) -> anyhow::Result<()> {
        let job = self.prompt.jobs().iter().find(|job| job.number == number);
        let roles = job.map(|job| job.roles.clone()).ok_or_else(|| no_monitor(&number))?;
        let roles: Vec<u32> = roles.map(|role| role as u32).collect();
        self.source.turn(&roles, false, &mut self.prompt)?;
        self.source.drain_rest(&mut self.prompt);
        self.report(number, true);
        self.source.close(&roles, &mut self.prompt)?;
        self.schedules.retain(|schedule| schedule.number != number);
        self.prompt.end_job(number)?;
        Ok(())
    }

    /// Ends all monitors without reports.
    ///
    /// # Errors
    /// A monitor cannot be ended.
    pub(super) fn clear_jobs(&mut self) -> anyhow::Result<()> {
        let all: Vec<(usize, Vec<u32>)> = self
            .prompt
            .jobs()
            .iter()
            .map(|job| (job.number, job.roles.clone().map(|role| role as u32).collect()))
            .collect();
        for (number, roles) in all {
            self.source.close(&roles, &mut self.prompt)?;
            self.prompt.end_job(number)?;
        }
        self.schedules.clear();
        Ok(())
    }

    /// Draws the reports that are due.
    pub(super) fn report_due(&mut self) {
        let now = self.source.now();
        let due: Vec<usize> = self
            .schedules
            .iter()
            .filter(|schedule| schedule.next <= now)
            .map(|schedule| schedule.number)
            .collect();
        due.into_iter().for_each(|number| self.report(number, false));
    }

    /// Draws the reports of all monitors now.
    pub(super) fn report_all(&mut self) {
        let all: Vec<usize> = self.schedules.iter().map(|schedule| schedule.number).collect();
        all.into_iter().for_each(|number| self.report(number, false));
    }

    /// Returns when the next report is due, in nanoseconds of the session.
    pub(super) fn next_report(&self) -> f64 {
        self.schedules.iter().map(|schedule| schedule.next).fold(f64::INFINITY, f64::min)
    }

    fn report(&mut self, number: usize, last: bool) {
        let now = self.source.now();
        let Some(schedule) = self.schedules.iter_mut().find(|schedule| schedule.number == number)
        else {
            return;
        };
        let seconds = (now - schedule.last) / 1e9;
        schedule.last = now;
        // After a pause, one report covers the missed ones.
        while schedule.next <= now {
            schedule.next += schedule.every;
        }
        self.source.count(&mut self.prompt);
        let counts = self.source.take_counts();
        self.prompt.host.set_now(now);
        let parts = self.prompt.job_report(number, seconds, &counts, last);
        self.prompt.host.context().draw(now, |out, stamp| out.report(stamp, &parts));
    }

    /// `jobs`: returns a line for each monitor.
    pub(super) fn list_jobs(&self) -> String {
        let now = self.source.now();
        let line = |job: &Job| {
            let schedule = self.schedules.iter().find(|schedule| schedule.number == job.number);
            let seconds = schedule.map_or(0.0, |schedule| (now - schedule.begun) / 1e9);
            let received: u64 = job.roles.clone().map(|role| self.prompt.spent(role).events).sum();
            let in_kernel = self.source.counted().map_or(0, |counts| counts.events(&job.roles));
            let events = received + in_kernel;
            format!("{} {}: {} in {seconds:.0} s", job.number, job.name, counted(events, "event"))
        };
        let lines: Vec<String> = self.prompt.jobs().iter().map(line).collect();
        if lines.is_empty() {
            "no monitor runs; run(\"NAME\") starts one".to_owned()
        } else {
            lines.join("\n")
        }
    }
}

/// The error of `stop` with this number or name.
fn no_monitor(what: &dyn Display) -> anyhow::Error {
    anyhow!("stop: there is no monitor {what}; `jobs` lists them")
}

/// Converts `{ than = "10ms", call_graph = true, "free word" }` to command line arguments.
fn words_of(options: &Value) -> anyhow::Result<Vec<OsString>> {
    let Some(options) = options.as_table() else { return Ok(Vec::new()) };
    let mut words = free_words(options)?;
    for pair in options.pairs::<Value, Value>() {
        let (Value::String(name), value) = pair? else { continue };
        let name = name.to_string_lossy().replace('_', "-");
        let dashes = if name.chars().count() == 1 { "-" } else { "--" };
        match value {
            Value::Boolean(false) => {}
            Value::Boolean(true) => words.insert(0, format!("{dashes}{name}").into()),
            value => {
                let text = value.to_string()?;
                let joint = if dashes == "-" { "" } else { "=" };
                words.insert(0, format!("{dashes}{name}{joint}{text}").into());
            }
        }
    }
    Ok(words)
}

fn free_words(options: &Table) -> anyhow::Result<Vec<OsString>> {
    let words = options.sequence_values::<String>().collect::<mlua::Result<Vec<_>>>()?;
    Ok(words.into_iter().map(Into::into).collect())
}
