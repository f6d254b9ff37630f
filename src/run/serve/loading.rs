//! Loads the monitors of `serve`, each with its own options.

use std::ffi::OsString;

use anyhow::{Context as _, anyhow, bail, ensure};

use super::super::request::{RunOptions, RunRequest};
use super::super::session::Monitors;
use crate::base::report::draw::Level;
use crate::script::host::job::JobOptions;
use crate::script::option::opt;
use crate::script::option::value::OptionValue;
use crate::script::served::ServedMonitors;
use crate::script::vm::guard::Failure;

/// A monitor of `serve` and its options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedMonitor {
    /// Its name in metrics, messages and coverage.
    pub name: String,
    /// Name or path of the script.
    pub called: String,
    /// Its options, as on its command line.
    pub words: Vec<OsString>,
}

/// Loads and begins the monitors. Returns the request with what they need.
///
/// # Errors
/// A monitor cannot be loaded or begun, or an option does not apply to a monitor of `serve`. The
/// error names the monitor.
pub(super) fn load_all(
    served: &mut ServedMonitors,
    request: &RunRequest,
    monitors: &Monitors,
    wanted: &[ServedMonitor],
) -> anyhow::Result<RunRequest> {
    let mut pages = None;
    for one in wanted {
        let own = load(served, request, monitors, one)
            .map_err(|why| shortened(why, &one.called))
            .with_context(|| one.name.clone())?;
        pages = pages.max(own.monitor.pages);
        let context = served.host.context();
        for (level, texts) in [(Level::Warning, &own.notes), (Level::Info, &own.understood)] {
            texts.iter().for_each(|text| context.note(level, &format!("{}: {text}", one.name)));
        }
    }
    served.ready()?;
    let mmap_pages = request.options.mmap_pages.or(pages);
    let options = RunOptions { mmap_pages, ..request.options.clone() };
    Ok(RunRequest { options, ..request.clone() })
}

/// Removes the parts of an error that repeat the monitor's name, or are about the code of a bundled
/// script: its cause is in the options.
fn shortened(why: anyhow::Error, called: &str) -> anyhow::Error {
    if let Some(Failure::Script(error)) = why.downcast_ref()
        && error.raised
        && !called.contains(['/', '.'])
    {
        return anyhow!("{}", error.without_place());
    }
    let text = format!("{why:#}");
    match text.strip_prefix(&format!("{called}: ")) {
        Some(rest) => anyhow!("{rest}"),
        None => why,
    }
}

fn load(
    served: &mut ServedMonitors,
    request: &RunRequest,
    monitors: &Monitors,
    one: &ServedMonitor,
) -> anyhow::Result<RunRequest> {
    let script = monitors.library.find(&one.called)?;
    let first_table = served.host.tables();
    let monitor = served.host.load_beside(&script, &monitors.library, &monitors.taken)?;
    let mut optional = monitor.clone();
    optional.options.iter_mut().for_each(|option| option.required = false);
    let default = (monitors.parse)(&optional, &one.called, &[]).map(|request| request.options);
    let own = (monitors.parse)(&monitor, &one.called, &one.words)?;
    if !own.options.workload.is_empty() {
        bail!("a monitor of serve has no COMMAND; select processes with serve -p");
    }
    if default.is_ok_and(|default| default != own.options) {
        bail!(
            "only the monitor's own options can be given to it; give options of all monitors, such \
             as -C, -p and -i, to serve itself"
        );
    }
    if let Some(file) = own.file_at_end() {
        bail!("--{file} writes a file at the end; run the monitor by itself");
    }
    ensure!(
        !monitor.whole_cpus || !request.options.selects_tasks() && request.options.cgroup.is_none(),
        "it watches whole CPUs, not single tasks; omit -p, -t and --cgroup, or serve it by itself"
    );
    let options = JobOptions {
        table: &opt::table(served.host.lua(), &monitor.options, &own.values)?,
        perins: own.values.get("perins").is_some_and(OptionValue::is_given),
        rate: own.rate(),
        stack: own.stack()?,
        given: &own.given,
        first_table,
    };
    served.add(&one.name, &monitor, &options)?;
    Ok(own)
}
