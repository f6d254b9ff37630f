//! Which CPUs and threads are watched, and what a script runs with.

use std::rc::Rc;

use anyhow::bail;

use super::flames;
use super::request::{HostOptions, RunRequest};
use crate::base::cpulist;
use crate::event::catalog::Catalog;
use crate::script::host::Setting;
use crate::script::option::value::OptionValue;
use crate::source::open::Opening;
use crate::source::trial::try_out;
use crate::sys::child::Workload;
use crate::sys::cpus::{absent, online_cpus};
use crate::sys::perf::Target;
use crate::sys::tasks::{any_alive, threads_of};

/// What is watched of this machine.
pub(super) struct Scope {
    /// CPUs, all online.
    pub(super) cpus: Vec<u32>,
    /// The threads of `-p`, of `-t`, or the workload's; None is every task.
    pub(super) tasks: Option<Vec<i32>>,
}

impl Scope {
    /// What the options ask for.
    ///
    /// # Errors
    /// A CPU that is not online, a task that is not there.
    pub(super) fn of(settings: &HostOptions, workload: Option<&Workload>) -> anyhow::Result<Scope> {
        Ok(Scope { cpus: cpus(settings)?, tasks: tasks(settings, workload)? })
    }

    /// What a script runs with: events are tried on the first thread, or the first CPU.
    ///
    /// # Errors
    /// Options that contradict each other.
    pub(super) fn setting(
        &self,
        request: &RunRequest,
        catalog: Rc<dyn Catalog>,
    ) -> anyhow::Result<Setting> {
        let target = Target {
            pid: self.tasks.as_ref().and_then(|tasks| tasks.first()).map_or(-1, |tid| *tid),
            cpu: self.cpus.first().map_or(0, |cpu| *cpu as i32),
        };
        Ok(Setting {
            trial: Some(Rc::new(move |event, sampling| try_out(event, sampling, target))),
            per_thread: self.tasks.is_some(),
            online: Some(online_cpus()),
            ..setting(request, catalog, self.cpus.clone())?
        })
    }
}

/// What a script runs with where there is nothing to try events on.
///
/// # Errors
/// Options that contradict each other.
pub(super) fn setting(
    request: &RunRequest,
    catalog: Rc<dyn Catalog>,
    cpus: Vec<u32>,
) -> anyhow::Result<Setting> {
    let settings = &request.host;
    Ok(Setting {
        catalog,
        trial: None,
        cpus,
        online: None,
        perins: request.values.get("perins").is_some_and(OptionValue::is_given),
        verbose: settings.verbose > 0,
        per_thread: !settings.pids.is_empty() || !settings.tids.is_empty(),
        stack: request.stack()?,
        rate: request.rate(),
        memory: settings.lua_mem as usize,
        aggregate_memory: settings.aggregate_mem as usize,
        totals: settings.total,
        flame: flames::wish(&request.values),
    })
}

/// The CPUs that have rings: all, for the records of tasks and for events of which everyone's
/// records are wanted. The other events are opened on the watched CPUs only.
pub(super) fn of_rings(watched: &[u32], openings: &mut [Opening]) -> Vec<u32> {
    let online = online_cpus();
    if watched != online {
        openings.iter_mut().for_each(|opening| limit(opening, watched));
    }
    online
}

/// Opens an event on the watched CPUs only, where there are rings on others, unless everyone's records of it are wanted.
pub(super) fn limit(opening: &mut Opening, watched: &[u32]) {
    if !opening.sampling.everyone {
        let own = opening.sampling.cpus.get_or_insert_with(|| watched.to_vec());
        own.retain(|cpu| watched.contains(cpu));
    }
}

fn cpus(settings: &HostOptions) -> anyhow::Result<Vec<u32>> {
    let online = online_cpus();
    let Some(asked) = &settings.cpus else { return Ok(online) };
    match absent(asked, &online) {
        Some(why) => bail!("-C {}: {why}", cpulist::format(asked)),
        None => Ok(asked.clone()),
    }
}

fn tasks(settings: &HostOptions, workload: Option<&Workload>) -> anyhow::Result<Option<Vec<i32>>> {
    if let Some(workload) = workload {
        // With -C, -a, -p or -t, the workload is only the clock: those are watched while it runs.
        let clock = settings.cpus.is_some() || settings.all_cpus;
        if settings.pids.is_empty() && settings.tids.is_empty() {
            return Ok((!clock).then(|| vec![workload.pid()]));
        }
    }
    if settings.pids.is_empty() && settings.tids.is_empty() {
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
