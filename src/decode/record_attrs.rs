//! The attributes of an event that determine the layout of its records.

/// The attributes of an event that determine the layout of its records; names and values as in
/// `perf_event_attr`.
///
/// Unknown bits of `sample_type` are ignored: no kernel opens such an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordAttrs {
    /// `PERF_SAMPLE_*`.
    pub sample_type: u64,
    /// `PERF_FORMAT_*`.
    pub read_format: u64,
    /// `PERF_SAMPLE_BRANCH_*`.
    pub branch_sample_type: u64,
    /// One bit for each register of `PERF_SAMPLE_REGS_USER`.
    pub sample_regs_user: u64,
    /// One bit for each register of `PERF_SAMPLE_REGS_INTR`.
    pub sample_regs_intr: u64,
    /// Whether records other than samples end with a trailer.
    pub sample_id_all: bool,
    /// How many events a sample stands for if it does not have `PERF_SAMPLE_PERIOD`; 0 is 1.
    pub fixed_period: u64,
}

impl RecordAttrs {
    /// Returns whether one of these bits is set in `sample_type`.
    #[inline]
    pub fn samples(&self, bits: u32) -> bool {
        self.sample_type & u64::from(bits) != 0
    }

    /// Returns whether one of these bits is set in `branch_sample_type`.
    pub(super) fn branches(&self, bits: u32) -> bool {
        self.branch_sample_type & u64::from(bits) != 0
    }
}
