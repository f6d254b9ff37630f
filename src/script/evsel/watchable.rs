//! Checks CPUs that an event is limited to.

use super::role::Refused;
use crate::base::text::cpulist;
use crate::sys::cpus::absent;

/// The CPUs that an event may be limited to.
#[derive(Clone, Debug)]
pub struct Watchable {
    /// Online CPUs.
    pub online: Vec<u32>,
    /// CPUs of `-C`, or all.
    pub watched: Vec<u32>,
}

impl Watchable {
    /// Checks a list of CPUs.
    ///
    /// # Errors
    /// A CPU that this machine does not have or that is offline, or a list without any CPU of `-C`.
    pub(super) fn check(&self, asked: &[u32]) -> Result<(), Refused> {
        let list = cpulist::format(asked);
        if let Some(why) = absent(asked, &self.online) {
            return Err(format!("cpus={list}: {why}"));
        }
        if asked.iter().any(|cpu| self.watched.contains(cpu)) {
            return Ok(());
        }
        let watched = cpulist::format(&self.watched);
        Err(format!(
            "cpus={list}: -C watches only CPU {watched}; name one of those, or add {list} to -C"
        ))
    }
}
