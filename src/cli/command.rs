//! A monitor's command line: one clap command with its own options and the common ones, parsed into
//! a request.
//!
//! The first free argument begins a workload, to which all following arguments belong, as do all
//! arguments after `--`. A monitor with a positional option takes it from the free arguments first.
//! The single argument `help` after events asks for their description; `-- help` runs a command of
//! that name.

use std::{ffi::OsString, path::PathBuf};

use anyhow::Context as _;
use clap::{Arg, ArgAction, ArgMatches, Command, builder::ValueParser};

use super::{CommandError, run_options, text_files};
use crate::{
    base::text::units::human_ns,
    event::{other_tools::event_hint, selector::Selector},
    run::request::{RunOptions, RunRequest},
    script::{
        load::monitor::Monitor,
        option::{
            Attrs, OptionKind, OptionSpec, args, shared, usage_error,
            value::{OptionValue, OptionValues},
        },
    },
};

/// The id of the workload's arguments; in upper case, so that no option has it.
const WORKLOAD: &str = "COMMAND";

/// The parsed arguments of a monitor.
#[derive(Debug)]
pub enum Parsed {
    /// `-h`, `-?`, `--help`.
    Help,
    /// `--usage`.
    Usage,
    /// `help` after events.
    Events(EventsHelp),
    /// A run.
    Run(Box<RunRequest>),
}

/// `-e EVENT,… help`: the events to describe.
#[derive(Debug)]
pub struct EventsHelp {
    /// Each `-e` as typed, or `--alloc`: the option, its attributes and its selectors.
    pub groups: Vec<(String, Attrs, Vec<Selector>)>,
    /// `--json`.
    pub json: bool,
    /// `--replay`.
    pub replay: Option<PathBuf>,
}

/// Parses the arguments of a monitor; `called` is the name or path by which it was called.
///
/// # Errors
/// An option is unknown, or has an invalid value.
pub fn parse(monitor: &Monitor, called: &str, words: &[OsString]) -> Result<Parsed, CommandError> {
    let common_specs = run_options::options_beside(&monitor.options);
    let all: Vec<OptionSpec> = monitor.options.iter().chain(&common_specs).cloned().collect();
    let usage = |error: anyhow::Error| {
        let text = format!("{}: {error:#}", monitor.name);
        // A text that shows the position of the error needs no reference to the help.
        let more = format!(" ({} shows more)", help_command(called));
        CommandError::Usage(if text.contains('\n') { text } else { text + &more })
    };

    let (before, behind) = split_at_dashes(words);
    let positional = monitor.options.iter().filter(|o| o.positional).count();
    let before = args::attach_choices(before.to_vec(), &all, positional);
    let matches = command(monitor).try_get_matches_from(before).map_err(|error| {
        let lists = format!("({} lists them)", help_command(called));
        CommandError::Usage(usage_error::line(&monitor.name, &lists, &all, &error))
    })?;
    if matches.get_flag("help") {
        return Ok(Parsed::Help);
    }
    if matches.get_flag("usage") {
        return Ok(Parsed::Usage);
    }

    if behind.is_none()
        && let Some(asked) = asked(monitor, &matches).map_err(usage)?
    {
        return Ok(Parsed::Events(asked));
    }

    check_positional_event(monitor, &matches).map_err(usage)?;
    let mut values = args::values(&monitor.options, &matches).map_err(usage)?;
    text_files::read(&monitor.options, &mut values).map_err(usage)?;
    let common_values = args::values(&common_specs, &matches).map_err(usage)?;
    let (mut common, mut notes) = run_options::meaning(&common_values).map_err(usage)?;
    notes.extend(shared::check_and_imply(&mut values).map_err(usage)?);
    take_database(&mut values, &mut common).map_err(usage)?;
    let workload = matches.get_many::<OsString>(WORKLOAD).unwrap_or_default().cloned();
    common.workload = join_at_dashes(workload.collect(), behind);
    if common.workload.is_empty() && behind.is_some() {
        return Err(usage(anyhow::anyhow!("no command after '--'")));
    }
    if let Some(option) = monitor.options.iter().find(|option| starts_load(option, &values)) {
        if !common.workload.is_empty() {
            let typed = option.typed();
            return Err(usage(anyhow::anyhow!(
                "{typed} starts a command of its own: omit COMMAND"
            )));
        }
        common.workload = load(option).map_err(usage)?;
    }
    run_options::check_replay(&common).map_err(usage)?;
    Ok(Parsed::Run(Box::new(RunRequest {
        called: called.to_owned(),
        monitor: monitor.clone(),
        given: args::given(&monitor.options, &matches),
        values,
        options: common,
        notes,
        understood: args::understood(&all, &matches),
    })))
}

/// Refuses an event in place of the command, as tools of bcc take it, if an event is required and
/// missing: `funccount './a:f*'`.
fn check_positional_event(monitor: &Monitor, matches: &ArgMatches) -> anyhow::Result<()> {
    let is_missing = |option: &&OptionSpec| {
        let is_event = matches!(option.kind, OptionKind::Events { .. } | OptionKind::Event { .. });
        is_event && option.required && !matches.contains_id(&option.long)
    };
    let Some(option) = monitor.options.iter().find(is_missing) else { return Ok(()) };
    let first = matches.get_many::<OsString>(WORKLOAD).and_then(|mut free| free.next());
    let Some(word) = first.and_then(|word| word.to_str()) else { return Ok(()) };
    let event = match word.split_once(':') {
        Some((file, _)) if file.contains('/') => format!("uprobe:{word}"),
        Some(_) => word.to_owned(),
        None if word.contains('*') && !word.contains('/') => format!("kprobe:{word}"),
        None => return Ok(()),
    };
    let missing = option.typed_with_value();
    match event_hint(&event) {
        none if none.is_empty() => {
            anyhow::bail!("'{missing}' is missing; write {} '{event}'", option.typed())
        }
        hint => anyhow::bail!("'{missing}' is missing{hint}"),
    }
}

/// Makes `-o FILE.db` the database of a monitor that can write one.
fn take_database(values: &mut OptionValues, common: &mut RunOptions) -> anyhow::Result<()> {
    let is_database = |path: &PathBuf| path.extension().is_some_and(|suffix| suffix == "db");
    let Some(option) = values.get_mut("database") else { return Ok(()) };
    let Some(path) = common.output.take_if(|path| is_database(path)) else { return Ok(()) };
    anyhow::ensure!(!option.is_given(), "-o FILE.db and --database are the same; omit one");
    let path = path.into_os_string().into_string();
    *option = OptionValue::Text(path.map_err(|path| anyhow::anyhow!("-o: {path:?} is not UTF-8"))?);
    Ok(())
}

/// Returns whether the option was given, and starts one of perilune's own commands as a workload.
fn starts_load(option: &OptionSpec, values: &OptionValues) -> bool {
    option.load.is_some() && values.get(&option.long).is_some_and(OptionValue::is_given)
}

/// Returns the command that the option starts.
fn load(option: &OptionSpec) -> anyhow::Result<Vec<OsString>> {
    let own = std::env::current_exe().context("failed to find perilune's own executable")?;
    Ok(std::iter::once(own.into_os_string()).chain(option.load.map(OsString::from)).collect())
}

/// Returns the command that prints a monitor's help: `perilune signal --help`.
fn help_command(called: &str) -> String {
    format!("perilune {called} --help")
}

/// Builds the clap command of a monitor, whose options have been checked by
/// [`crate::script::option::check_names`].
pub fn command(monitor: &Monitor) -> Command {
    let workload = Arg::new(WORKLOAD)
        .help("command to start and to watch until it ends")
        .help_heading("Workload")
        .value_parser(ValueParser::os_string())
        .action(ArgAction::Append)
        .num_args(1..)
        .trailing_var_arg(true)
        .hide(true);
    let own = args::to_args(&monitor.options);
    let mut common = run_options::options_beside(&monitor.options);
    for option in common.iter_mut().filter(|option| option.long == "interval") {
        option.help += &match monitor.every_ns {
            Some(ns) => format!("; default {}, or once for a COMMAND", human_ns(ns)),
            None => "; default: at the end".to_owned(),
        };
    }
    Command::new(monitor.name.clone())
        .no_binary_name(true)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .args(own.into_iter().map(|arg| arg.help_heading("Monitor's options")))
        .next_help_heading("Common options")
        .args(args::to_args(&common))
        .mut_arg("help", |arg| arg.visible_short_alias('?'))
        .arg(workload)
}

/// Returns the events that a following `help` asks about, even if they do not suffice for a run.
fn asked(monitor: &Monitor, matches: &ArgMatches) -> anyhow::Result<Option<EventsHelp>> {
    let mut free = matches.get_many::<OsString>(WORKLOAD).unwrap_or_default();
    if free.next().is_none_or(|word| word != "help") {
        return Ok(None);
    }
    // clap parses no option after the first free argument, so --json is also accepted there.
    let json = match free.next() {
        None => matches.get_flag("json"),
        Some(word) if word == "--json" && free.len() == 0 => true,
        Some(_) => return Ok(None),
    };
    let mut groups = Vec::new();
    for option in &monitor.options {
        let (OptionKind::Events { attrs, .. } | OptionKind::Event { attrs }) = &option.kind else {
            continue;
        };
        for typed in matches.get_many::<OsString>(&option.long).unwrap_or_default() {
            let text = typed.to_string_lossy();
            let list = Selector::parse_list(&text)
                .map_err(|why| anyhow::anyhow!("{}: {why}", option.typed()))?;
            groups.push((option.typed(), attrs.clone(), list));
        }
    }
    let path = |name: &str| matches.get_one::<OsString>(name).map(PathBuf::from);
    let asked = EventsHelp { groups, json, replay: path("replay") };
    Ok((!asked.groups.is_empty()).then_some(asked))
}

/// Splits the arguments at the first `--`. An option cannot have a bare `--` as its value.
fn split_at_dashes(words: &[OsString]) -> (&[OsString], Option<&[OsString]>) {
    match words.iter().position(|w| w == "--") {
        Some(at) => (&words[..at], words.get(at + 1..)),
        None => (words, None),
    }
}

/// Joins the parts around `--`, which belongs to a workload that began before it:
/// `sh -c 'echo $1' -- x`.
fn join_at_dashes(mut workload: Vec<OsString>, behind: Option<&[OsString]>) -> Vec<OsString> {
    if let Some(behind) = behind {
        if !workload.is_empty() {
            workload.push("--".into());
        }
        workload.extend_from_slice(behind);
    }
    workload
}
