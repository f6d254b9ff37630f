//! `serve [OPTION…] MONITOR[:OPTIONS]…`: several monitors in one process, whose reports become
//! metrics.

mod file;

use std::ffi::OsString;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use clap::builder::ValueParser;
use clap::{Arg, ArgAction, Command};

use super::runtime::Runtime;
use super::{CommandError, run_options};
use crate::output::metrics::identifier;
use crate::run::request::RunRequest;
use crate::run::serve::ServedMonitor;
use crate::script::load::library::{Script, ScriptOrigin};
use crate::script::option::value::OptionValues;
use crate::script::option::{OptionSpec, args, usage_error};

/// A script in place of a monitor, whose name is that of the run as a whole.
const MONITOR: &str = "local m = monitor { summary = \"several monitors, exported as metrics\" }\n\
                       function m.init() end\n\
                       return m\n";

/// The common options that apply to all monitors together.
const OPTIONS: [&str; 24] = [
    "cpu",
    "pids",
    "tids",
    "cgroup",
    "interval",
    "duration",
    "mmap-pages",
    "watermark",
    "realtime",
    "order",
    "no-order",
    "prometheus",
    "otlp",
    "series",
    "plugin",
    "verbose",
    "quiet",
    "self",
    "lines",
    "where",
    "lua-mem",
    "aggregate-mem",
    "help",
    "usage",
];

/// The id of the monitors' arguments; in upper case, so that no option has it.
const MONITORS: &str = "MONITOR";

/// Names in metrics that are not a monitor's.
const TAKEN: [&str; 3] = ["serve", "monitor", "build"];

/// Runs the monitors until the run ends.
///
/// # Errors
/// The arguments are invalid, or a monitor cannot begin.
pub fn run(words: &[OsString], runtime: &mut dyn Runtime) -> Result<u8, CommandError> {
    let usage = |why: anyhow::Error| CommandError::Usage(format!("serve: {why:#} {LISTS}"));
    let words = file::expanded(words).map_err(usage)?;
    let specs = options();
    let matches = command(&specs)
        .try_get_matches_from(words.common)
        .map_err(|error| CommandError::Usage(usage_error::line("serve", LISTS, &specs, &error)))?;
    let given = matches.get_many::<OsString>(MONITORS).unwrap_or_default();
    let typed = given.map(monitor).collect::<anyhow::Result<Vec<_>>>();
    let monitors = [words.monitors, typed.map_err(usage)?].concat();
    check_names(&monitors).map_err(usage)?;
    let values = args::values(&specs, &matches).map_err(usage)?;
    let (options, notes) = run_options::meaning(&values).map_err(usage)?;
    if !options.exports() {
        let why = "nothing reads the metrics: give --prometheus [ADDR:]PORT or --otlp URL";
        return Err(usage(anyhow::anyhow!(why)));
    }
    let script = Script {
        name: "serve".to_owned(),
        origin: ScriptOrigin::Bundled,
        text: MONITOR.to_owned(),
    };
    let request = RunRequest {
        called: "serve".to_owned(),
        monitor: runtime.load_text(&script)?,
        values: OptionValues::new(),
        given: Vec::new(),
        options,
        notes,
        understood: args::understood(&specs, &matches),
    };
    Ok(runtime.serve(request, &monitors)?)
}

/// How the options are listed.
const LISTS: &str = "(perilune help serve shows more)";

/// Returns the options as the help shows them.
pub(super) fn options_help() -> String {
    let help = command(&options()).help_template("{options}").render_help();
    format!("Options:\n{}", help.to_string().trim_end())
}

fn options() -> Vec<OptionSpec> {
    let is_served = |option: &OptionSpec| OPTIONS.contains(&option.long.as_str());
    run_options::options().into_iter().filter(is_served).collect()
}

fn command(specs: &[OptionSpec]) -> Command {
    let monitors = Arg::new(MONITORS)
        .value_parser(ValueParser::os_string())
        .action(ArgAction::Append)
        .num_args(1..)
        .hide(true);
    Command::new("serve")
        .no_binary_name(true)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .args(args::to_args(specs))
        .arg(monitors)
}

/// Parses `[NAME=]MONITOR[:OPTIONS]`.
///
/// # Errors
/// The word is not UTF-8, the monitor has no name, or a quote is not closed.
fn monitor(word: &OsString) -> anyhow::Result<ServedMonitor> {
    let text = word.to_str().with_context(|| format!("{word:?} is not UTF-8"))?;
    let (head, options) = text.split_once(':').unwrap_or((text, ""));
    let (name, called) = head.split_once('=').unwrap_or((stem(head), head));
    ensure!(
        !name.is_empty() && !called.is_empty(),
        "`{text}` names no monitor: expected [NAME=]MONITOR[:OPTIONS], such as 'profile:-F 49'"
    );
    Ok(ServedMonitor { name: name.to_owned(), called: called.to_owned(), words: split(options)? })
}

/// Splits options as a shell does.
fn split(options: &str) -> anyhow::Result<Vec<OsString>> {
    let words = shlex::split(options);
    let words = words.with_context(|| format!("`{options}`: a quote is not closed"))?;
    Ok(words.into_iter().map(OsString::from).collect())
}

/// Returns the name of a monitor that is called by its name or path.
fn stem(called: &str) -> &str {
    let stem = Path::new(called).file_stem().and_then(|stem| stem.to_str());
    stem.filter(|_| called.contains('/') || called.ends_with(".lua")).unwrap_or(called)
}

/// Checks that there are monitors, and that their metrics have different names.
fn check_names(monitors: &[ServedMonitor]) -> anyhow::Result<()> {
    ensure!(!monitors.is_empty(), "name a monitor: serve --prometheus 9464 syscalls rundelay");
    for (at, one) in monitors.iter().enumerate() {
        let name = identifier(&one.name);
        ensure!(
            !name.is_empty(),
            "{}: metrics need a name with a letter of a to z or a digit; name the monitor NAME={}",
            one.name,
            one.called
        );
        ensure!(
            !TAKEN.contains(&name.as_str()),
            "{}: this name has another meaning in the metrics; name the monitor NAME={}",
            one.name,
            one.called
        );
        let taken = monitors.iter().find(|other| is_part_of(&name, &identifier(&other.name)));
        if let Some(other) = taken {
            bail!(
                "{}: its metrics could have the names of the coverage of {}; name the monitor \
                 NAME={}",
                one.name,
                other.name,
                one.called
            );
        }
        let same = monitors.iter().take(at).find(|other| identifier(&other.name) == name);
        match same {
            Some(other) if other.name != one.name => bail!(
                "{} and {} have one name in the metrics, {name}; name one of them NAME={}",
                other.name,
                one.name,
                one.called
            ),
            Some(_) => bail!("{} is there twice; name one of them NAME={}", one.name, one.called),
            None => {}
        }
    }
    Ok(())
}

/// Returns whether metrics of the monitor `name` can have the names that another monitor's own
/// metrics have: `perilune_OTHER_coverage_…` and `perilune_OTHER_export_…`.
fn is_part_of(name: &str, other: &str) -> bool {
    let rest = name.strip_prefix(other).and_then(|rest| rest.strip_prefix('_'));
    let part = rest.map(|rest| rest.split('_').next().unwrap_or_default());
    matches!(part, Some("coverage" | "export"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> ServedMonitor {
        monitor(&text.into()).unwrap()
    }

    #[test]
    fn a_monitor_has_a_name_a_script_and_quoted_options() {
        let served = |name: &str, called: &str, words: &[&str]| ServedMonitor {
            name: name.to_owned(),
            called: called.to_owned(),
            words: words.iter().map(OsString::from).collect(),
        };
        assert_eq!(parsed("syscalls"), served("syscalls", "syscalls", &[]));
        assert_eq!(parsed("profile:-F 49 -g"), served("profile", "profile", &["-F", "49", "-g"]));
        assert_eq!(
            parsed("slow=trace:-e 'sched:sched_switch/prev_comm == \"a b\"/'"),
            served("slow", "trace", &["-e", "sched:sched_switch/prev_comm == \"a b\"/"])
        );
        assert_eq!(parsed("/etc/my.lua:-v"), served("my", "/etc/my.lua", &["-v"]));
    }

    #[test]
    fn wrong_monitors_are_refused_by_name() {
        let refused = |words: &[&str]| {
            let monitors: anyhow::Result<Vec<_>> =
                words.iter().map(|word| monitor(&word.into())).collect();
            monitors.and_then(|monitors| check_names(&monitors)).unwrap_err().to_string()
        };
        assert_eq!(refused(&["profile:-e 'a"]), "`-e 'a`: a quote is not closed");
        assert!(refused(&["=x"]).starts_with("`=x` names no monitor"));
        assert_eq!(
            refused(&["page-faults", "page_faults"]),
            "page-faults and page_faults have one name in the metrics, page_faults; name one of \
             them NAME=page_faults"
        );
        assert_eq!(refused(&["top", "top"]), "top is there twice; name one of them NAME=top");
        assert!(refused(&["cpu=top", "-cpu=top"]).starts_with("cpu and -cpu have one name"));
        assert!(refused(&["é=top"]).starts_with("é: metrics need a name with a letter"));
        assert!(refused(&["_serve=top"]).starts_with("_serve: this name has another meaning"));
        assert!(refused(&["serve"]).starts_with("serve: this name has another meaning"));
        assert_eq!(
            refused(&["a_coverage=top", "a=top"]),
            "a_coverage: its metrics could have the names of the coverage of a; name the monitor \
             NAME=top"
        );
        let accepted = ["a_coverages=top", "a=top"].map(|word| monitor(&word.into()).unwrap());
        assert!(check_names(&accepted).is_ok());
        assert!(refused(&[]).starts_with("name a monitor"));
    }
}
