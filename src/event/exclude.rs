//! Modes in which an event does not count.

/// The `exclude_*` bits of `perf_event_attr`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Exclude {
    /// `exclude_user`.
    pub user: bool,
    /// `exclude_kernel`.
    pub kernel: bool,
    /// `exclude_hv`.
    pub hv: bool,
    /// `exclude_host`.
    pub host: bool,
    /// `exclude_guest`.
    pub guest: bool,
    /// `exclude_idle`. As a sampling option it applies to the kernel's clocks only: a hardware
    /// counter of cycles stops by itself on idle CPUs, and some machines refuse the bit.
    pub idle: bool,
}

impl Exclude {
    /// Returns the modes that either excludes.
    pub fn or(self, other: Exclude) -> Exclude {
        Exclude {
            user: self.user | other.user,
            kernel: self.kernel | other.kernel,
            hv: self.hv | other.hv,
            host: self.host | other.host,
            guest: self.guest | other.guest,
            idle: self.idle | other.idle,
        }
    }
}
