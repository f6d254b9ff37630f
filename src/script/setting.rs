//! What a script runs with, beside its options.

use std::rc::Rc;

use crate::event::catalog::Catalog;

/// What a script runs with.
pub struct Setting {
    /// The events there are.
    pub catalog: Rc<dyn Catalog>,
    /// CPUs watched.
    pub cpus: Vec<u32>,
    /// `--perins`.
    pub perins: bool,
    /// Whether the instances are threads (`-p`, `-t`).
    pub per_thread: bool,
    /// Bytes that the script may hold; 0 leaves it as it is.
    pub memory: usize,
    /// Keep sums over the whole run, for `--total`.
    pub totals: bool,
}

impl Setting {
    /// One CPU, these events, and none of the options.
    pub fn of(catalog: Rc<dyn Catalog>) -> Setting {
        Setting {
            catalog,
            cpus: vec![0],
            perins: false,
            per_thread: false,
            memory: 0,
            totals: false,
        }
    }
}
