//! Options that have no effect on counters.

use anyhow::bail;

use super::request::RunOptions;
use crate::output::format::OutputFormat;
use crate::script::evsel::role::Role;

/// Checks that options that concern records are not used where nothing but counters is opened.
///
/// # Errors
/// One of them is.
pub(super) fn check_counters(roles: &[Role], settings: &RunOptions) -> anyhow::Result<()> {
    if settings.total && roles.iter().any(|role| role.sampling.count) {
        bail!("--total: counts have no total; without -i and --total, a COMMAND has one report");
    }
    if roles.iter().any(|role| !role.sampling.count) {
        return Ok(());
    }
    if settings.format == OutputFormat::Events {
        bail!("--events: this monitor reads counts, which cannot be recorded; use --json");
    }
    if settings.exit_after.is_some() {
        bail!("-N: this monitor reads counts, not single events; use --duration");
    }
    Ok(())
}
