//! Modes in which an event does not count, and which of them the kernel distinguishes.

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

/// Modes in which the kernel counts or samples an event, and whether it distinguishes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventModes {
    /// It occurs in user mode and in the kernel, and `exclude_*` separates them.
    Separate,
    /// It is counted in all modes: `exclude_*` has no effect.
    Together,
    /// It occurs only in the kernel: with `exclude_kernel` it is not counted, or the bit has no
    /// effect.
    OnlyKernel,
    /// It occurs only in user mode, and `exclude_user` has no effect.
    OnlyUser,
}

impl EventModes {
    /// Returns why the kernel cannot exclude these modes: the count would be 0, or would include
    /// them. `is_hardware` is whether a hardware counter counts the event: only these distinguish
    /// guests.
    pub fn refusal(self, excluded: Exclude, is_hardware: bool) -> Option<&'static str> {
        if (excluded.host || excluded.guest) && !is_hardware {
            return Some(
                "only hardware counters distinguish guests from their host; omit the modifiers G \
                 and H, -G and --exclude-guest; instead of perf's '-G CGROUP': 'stat --cgroup \
                 PATH'",
            );
        }
        match self {
            EventModes::Together if excluded.user || excluded.kernel => Some(
                "its count always includes user mode and the kernel; omit the modifiers u and k, \
                 --exclude-user and --exclude-kernel, or sample it",
            ),
            EventModes::OnlyKernel if excluded.kernel => Some(
                "it occurs only in the kernel; omit the modifier u and --exclude-kernel, or the \
                 event",
            ),
            EventModes::OnlyUser if excluded.user => Some(
                "it occurs only in user mode; omit the modifier k and --exclude-user, or the event",
            ),
            _ => None,
        }
    }
}
