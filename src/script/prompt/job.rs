//! A monitor that runs at a prompt.

use std::ops::Range;
use std::rc::Rc;

use crate::script::host::callbacks::Callbacks;

/// One running monitor.
pub struct Job {
    /// Its number for the user.
    pub number: usize,
    /// Its name.
    pub name: String,
    /// Its events, as roles.
    pub roles: Range<usize>,
    pub(super) callbacks: Rc<Callbacks>,
    /// Its tables, by number.
    pub(super) tables: Range<usize>,
}
