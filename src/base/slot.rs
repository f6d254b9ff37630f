//! The slot: what the runtime hands to a script of one event, and the batch of slots that a driver walks.
//!
//! A slot is plain memory that Lua reads through its FFI (`script/prelude/view.lua` declares the same
//! struct; a test compares the sizes and offsets), so its layout is a contract. Its pointers lead into a
//! ring or a scratch buffer and are good until the batch that holds it was dispatched.

/// One event as a driver loop sees it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// Nanoseconds since the run began, after ordering; exact to 2^53.
    pub time: f64,
    /// The tracepoint's raw record (`PERF_SAMPLE_RAW`), or null.
    pub raw: *const u8,
    /// The call chain (`PERF_SAMPLE_CALLCHAIN`), context markers included, or null.
    pub chain: *const u64,
    /// `PERF_SAMPLE_IP`, else 0.
    pub ip: u64,
    /// `PERF_SAMPLE_ADDR`, else 0.
    pub addr: u64,
    /// `PERF_SAMPLE_PERIOD`, else 1.
    pub period: u64,
    /// Process id, in the pid namespace of this process.
    pub pid: u32,
    /// Thread id, likewise.
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
    /// A slot that points nowhere.
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

    /// Where no event is: a slot of no role.
    pub const NONE: Slot = Slot { ev: ROLES_MAX, ..Slot::EMPTY };

    /// A slot that points to a raw record, and else is empty.
    #[inline(always)]
    pub fn of(raw: &[u8]) -> Slot {
        Slot {
            raw: raw.as_ptr(),
            raw_size: raw.len().min(usize::from(u16::MAX)) as u16,
            ..Slot::EMPTY
        }
    }
}

/// Slots of a batch: 64 KiB, which fits the second-level cache. A batch costs half a microsecond or more whatever it holds,
/// so smaller ones are dearer (384: 2 ns an event, 128: 9 ns). Indexes fit a `u16`.
pub const BATCH: usize = 1024;

/// Numbers of CPUs are below this: no kernel can be built for more than 8192.
pub const CPUS_MAX: u32 = 1 << 16;

/// Numbers of roles are below this; the number itself is no role.
pub const ROLES_MAX: u16 = u16::MAX;
