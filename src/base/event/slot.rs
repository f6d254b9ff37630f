//! Event slots, which the runtime passes to scripts, and the size of a batch of slots.
//!
//! A slot is plain memory that Lua reads through its FFI (`script/prelude/view.lua` declares the
//! same struct; a test compares sizes and offsets), so its layout is a contract. Its pointers refer
//! to a ring or a scratch buffer and are valid until the batch that contains the slot has been
//! dispatched.

/// One event, as passed to a driver loop.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// Nanoseconds since the start of the run, after ordering; exact to 2^53.
    pub time: f64,
    /// The tracepoint's raw record (`PERF_SAMPLE_RAW`), or null.
    pub raw: *const u8,
    /// The call chain (`PERF_SAMPLE_CALLCHAIN`), context markers included, or null.
    pub chain: *const u64,
    /// `PERF_SAMPLE_IP`, else 0.
    pub ip: u64,
    /// `PERF_SAMPLE_ADDR`, else 0.
    pub addr: u64,
    /// `PERF_SAMPLE_PERIOD`, else the fixed period; [`Slot::NAMED`] if the name of the task, as it
    /// was then, is behind the record.
    pub period: u64,
    /// Process id, in the pid namespace of this process.
    pub pid: u32,
    /// Thread id, in the same namespace.
    pub tid: u32,
    /// The CPU that wrote the record; below [`CPUS_MAX`].
    pub cpu: u16,
    /// Index of the evsel (role) that the event is for; below [`ROLES_MAX`].
    pub ev: u16,
    /// Bytes at `raw`. A perf record has less than 64 KiB.
    pub raw_size: u16,
    /// Entries at `chain`.
    pub chain_len: u16,
}

impl Slot {
    /// A slot without data.
    pub const EMPTY: Slot = Slot {
        time: 0.0,
        raw: std::ptr::null(),
        chain: std::ptr::null(),
        ip: 0,
        addr: 0,
        period: 1,
        pid: 0,
        tid: 0,
        cpu: 0,
        ev: 0,
        raw_size: 0,
        chain_len: 0,
    };

    /// Marks the absence of an event: a slot without a role.
    pub const NONE: Slot = Slot { ev: ROLES_MAX, ..Slot::EMPTY };

    /// The period of a slot whose record has the name of its task behind it. No event counts as
    /// many occurrences.
    pub const NAMED: u64 = u64::MAX;

    /// Returns the number of occurrences that it stands for.
    pub fn occurrences(&self) -> u64 {
        if self.period == Slot::NAMED { 1 } else { self.period }
    }

    /// Returns the name of the task behind a record, the bytes at `raw`; None if it has none.
    #[inline]
    pub fn name_behind(&self, raw: &[u8]) -> Option<[u8; 16]> {
        raw.last_chunk().filter(|_| self.period == Slot::NAMED).copied()
    }

    /// Returns a slot that points to a raw record and is otherwise empty.
    #[inline(always)]
    pub fn of(raw: &[u8]) -> Slot {
        Slot {
            raw: raw.as_ptr(),
            raw_size: raw.len().min(usize::from(u16::MAX)) as u16,
            ..Slot::EMPTY
        }
    }
}

/// Slots per batch: 64 KiB, which fits the second-level cache. A batch has a fixed cost of at least
/// half a microsecond, so smaller batches cost more per event (384 slots: 2 ns, 128 slots: 9 ns).
/// Indexes fit a `u16`.
pub const BATCH: usize = 1024;

/// CPU numbers are below this; Linux supports at most 8192 CPUs.
pub const CPUS_MAX: u32 = 1 << 16;

/// Role numbers are below this; the value itself is not a role.
pub const ROLES_MAX: u16 = u16::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_marked_slot_has_a_name_behind_its_record() {
        let raw: Vec<u8> = (0..24).collect();
        let name = |period, raw: &[u8]| Slot { period, ..Slot::of(raw) }.name_behind(raw);
        assert_eq!(name(Slot::NAMED, &raw).as_ref().map(|name| &name[..]), Some(&raw[8..]));
        assert_eq!([0, 1, u64::MAX - 1].map(|period| name(period, &raw)), [None; 3]);
        assert_eq!(name(Slot::NAMED, &raw[..15]), None);
        let of = |period| Slot { period, ..Slot::EMPTY }.occurrences();
        assert_eq!([0, 7, Slot::NAMED].map(of), [0, 7, 1]);
    }
}
