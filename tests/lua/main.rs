//! The host of scripts in the test's own process: aggregates, expressions, fields, patterns.

mod aggregate;
mod expression;
mod fields;
mod many_cpus;
mod meta;
mod pairs;
mod patterns;
mod sample_fields;
mod sample_parts;
mod split_locks;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Excludes every other run of a script in this process: a process has one guard at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}
