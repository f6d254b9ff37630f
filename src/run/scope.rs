//! Which CPUs and threads are watched, and the settings that a script runs with.

use std::rc::Rc;

use anyhow::bail;

use super::cgroups::WatchedCgroups;
use super::flames;
use super::request::{RunOptions, RunRequest};
use crate::base::text::cpulist;
use crate::event::catalog::Catalog;
use crate::script::host::Setting;
use crate::script::option::value::OptionValue;
use crate::source::open::try_open::try_out;
use crate::source::request::Opening;
use crate::sys::attr::{EVERY_TASK, PerfTarget};
use crate::sys::child::Workload;
use crate::sys::cpus::{absent, online_cpus};
use crate::sys::tasks::{any_alive, threads_of};

/// The watched part of this machine.
pub(super) struct WatchScope {
    /// Watched CPUs, all online.
    pub(super) cpus: Vec<u32>,
    /// The threads of `-p`, of `-t`, or of the workload; `None` means every task.
    pub(super) tasks: Option<Vec<i32>>,
    /// The control groups of `--cgroup`.
    pub(super) cgroups: Option<WatchedCgroups>,
}

impl WatchScope {
    /// Resolves the options that select CPUs and tasks.
    ///
    /// # Errors
    /// A CPU is not online, or a task or control group does not exist.
    pub(super) fn of(
        request: &RunRequest,
        workload: Option<&Workload>,
    ) -> anyhow::Result<WatchScope> {
        let settings = &request.options;
        if request.monitor.whole_cpus && settings.selects_tasks() {
            bail!(
                "{} watches whole CPUs, not single tasks; omit -p and -t (-C selects CPUs)",
                request.called
            );
        }
        if request.monitor.whole_cpus && settings.cgroup.is_some() {
            bail!(
                "{} watches whole CPUs, not the tasks of a cgroup; omit --cgroup (-C selects CPUs)",
                request.called
            );
        }
        let cgroups = settings.cgroup.as_deref().map(WatchedCgroups::of).transpose()?;
        Ok(WatchScope { cpus: cpus(settings)?, tasks: tasks(request, workload)?, cgroups })
    }

    /// Returns the settings of a script. Events are tried on the first thread, or on the first CPU.
    ///
    /// # Errors
    /// Options that contradict each other.
    pub(super) fn setting(
        &self,
        request: &RunRequest,
        catalog: Rc<dyn Catalog>,
    ) -> anyhow::Result<Setting> {
        let target = PerfTarget {
            pid: self.tasks.as_ref().and_then(|tasks| tasks.first()).map_or(EVERY_TASK, |tid| *tid),
            cpu: self.cpus.first().map_or(0, |cpu| *cpu as i32),
        };
        Ok(Setting {
            trial: Some(Rc::new(move |event, sampling| try_out(event, sampling, target))),
            per_thread: self.tasks.is_some(),
            some_tasks: self.tasks.is_some() || self.cgroups.is_some(),
            online: Some(online_cpus()),
            ..setting(request, catalog, self.cpus.clone())?
        })
    }
}

/// Returns the settings of a script when there is no target to try events on.
///
/// # Errors
/// Options that contradict each other.
pub(super) fn setting(
    request: &RunRequest,
    catalog: Rc<dyn Catalog>,
    cpus: Vec<u32>,
) -> anyhow::Result<Setting> {
    let settings = &request.options;
    Ok(Setting {
        catalog,
        trial: None,
        cpus,
        online: None,
        perins: request.values.get("perins").is_some_and(OptionValue::is_given),
        verbose: settings.verbose > 0,
        per_thread: settings.selects_tasks(),
        some_tasks: settings.selects_tasks(),
        stack: request.stack()?,
        rate: request.rate(),
        given: request.given.clone(),
        memory: settings.lua_mem as usize,
        aggregate_memory: settings.aggregate_mem as usize,
        totals: settings.total,
        metrics: settings.wants_measurements(),
        estimated: settings.budget.is_some(),
        flame: flames::options(&request.values),
        timeline: flames::text(&request.values, "perfetto").is_some(),
    })
}

/// Returns the CPUs that have rings: all online ones, for task records and for events whose records
/// are wanted from every task. Limits the other events to the watched CPUs.
pub(super) fn of_rings(watched: &[u32], openings: &mut [Opening]) -> Vec<u32> {
    let online = online_cpus();
    if watched != online {
        openings.iter_mut().for_each(|opening| limit(opening, watched));
    }
    online
}

/// Opens an event on the watched CPUs only, even if other CPUs have rings, unless its records are
/// wanted from every task.
pub(super) fn limit(opening: &mut Opening, watched: &[u32]) {
    if !opening.sampling.all_tasks {
        let own = opening.sampling.cpus.get_or_insert_with(|| watched.to_vec());
        own.retain(|cpu| watched.contains(cpu));
    }
}

fn cpus(settings: &RunOptions) -> anyhow::Result<Vec<u32>> {
    let online = online_cpus();
    let Some(asked) = &settings.cpus else { return Ok(online) };
    match absent(asked, &online) {
        Some(why) => bail!("-C {}: {why}", cpulist::format(asked)),
        None => Ok(asked.clone()),
    }
}

fn tasks(request: &RunRequest, workload: Option<&Workload>) -> anyhow::Result<Option<Vec<i32>>> {
    let settings = &request.options;
    if let Some(workload) = workload {
        // With -C, -a, -p, -t or --cgroup, these are watched, and the workload only limits the
        // run's time.
        let clock = settings.cpus.is_some()
            || settings.all_cpus
            || settings.cgroup.is_some()
            || request.monitor.whole_cpus;
        if !settings.selects_tasks() {
            return Ok((!clock).then(|| vec![workload.pid()]));
        }
    }
    if !settings.selects_tasks() {
        return Ok(None);
    }
    let mut tids: Vec<i32> = settings.tids.iter().map(|tid| *tid as i32).collect();
    for &tid in &tids {
        if !any_alive(&[tid]) {
            bail!("-t: there is no thread {tid}; it has ended, or lives in another pid namespace");
        }
    }
    for &pid in &settings.pids {
        let threads = threads_of(pid as i32).map_err(|_| {
            anyhow::anyhow!(
                "-p: there is no process {pid}; it has ended, or lives in another pid namespace"
            )
        })?;
        tids.extend(threads);
    }
    tids.sort_unstable();
    tids.dedup();
    Ok(Some(tids))
}
