//! Counts of handler errors, and the limit that switches a handler off.

use std::collections::BTreeSet;

/// Number of handler errors of one event that switch the handler off.
pub(super) const ERRORS_PER_HANDLER: u64 = 10;

/// Handler errors, in total and by role, and the roles whose handlers they switched off.
pub(super) struct Errors {
    pub(super) all: u64,
    /// Number of errors at which a handler is switched off.
    pub(super) most: u64,
    pub(super) by_role: Vec<u64>,
    pub(super) off: BTreeSet<usize>,
}

impl Errors {
    /// Counts an error of a role, and returns how many it has had.
    pub(super) fn count_of(&mut self, role: usize) -> u64 {
        if self.by_role.len() <= role {
            self.by_role.resize(role + 1, 0);
        }
        self.by_role[role] += 1;
        self.by_role[role]
    }
}

impl Default for Errors {
    fn default() -> Self {
        let (by_role, off) = Default::default();
        Errors { all: 0, most: ERRORS_PER_HANDLER, by_role, off }
    }
}
