//! The functions of expressions, in SQL: `ksymbol(address)`, `comm_get(pid)`, `syscall_name(nr)`,
//! `ntohl`, `ntohs`, `htonl`, `htons`; and `weight()`, the number of events that a row stands for.

use super::events::SqlEvents;
use super::sample::is_in_sample;
use rusqlite::Connection;
use rusqlite::functions::{Context, FunctionFlags};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use syscalls::Sysno;

thread_local! {
    /// The run whose query runs: SQLite wants functions that can be sent to other threads, and the
    /// state of a run cannot.
    static RUN: RefCell<Option<Rc<SqlEvents>>> = const { RefCell::new(None) };
    /// The weight of its rows.
    static WEIGHT: Cell<u64> = const { Cell::new(1) };
}

/// Lets the functions of queries look up names in this run, whose rows have this weight.
pub(super) fn look_up_in(events: &Rc<SqlEvents>, weight: u64) {
    RUN.set(Some(events.clone()));
    WEIGHT.set(weight);
}

fn in_run<R>(work: impl FnOnce(&SqlEvents) -> R) -> Option<R> {
    RUN.with_borrow(|run| run.as_deref().map(work))
}

/// Adds the functions to a database.
pub(super) fn register(db: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_INNOCUOUS;
    let fixed = flags | FunctionFlags::SQLITE_DETERMINISTIC;
    db.create_scalar_function("ksymbol", 1, flags, |context| {
        let address = number(context)?.map(i64::cast_unsigned);
        let name = |address| in_run(|run| run.ksymbol(address)).flatten();
        Ok(address.map(|address| name(address).unwrap_or_else(|| format!("{address:#x}"))))
    })?;
    db.create_scalar_function("comm_get", 1, flags, |context| {
        let tid = number(context)?.and_then(|tid| u32::try_from(tid).ok());
        Ok(tid.and_then(|tid| in_run(|run| run.comm(tid))))
    })?;
    db.create_scalar_function("syscall_name", 1, fixed, |context| {
        let number = number(context)?;
        let name = |number: i64| match usize::try_from(number).ok().and_then(Sysno::new) {
            Some(call) => call.name().to_owned(),
            None => number.to_string(),
        };
        Ok(number.map(name))
    })?;
    db.create_scalar_function("weight", 0, flags, |_| Ok(WEIGHT.get().cast_signed()))?;
    db.create_scalar_function("in_sample", 2, fixed, |context| {
        Ok(is_in_sample(context.get(0)?, context.get(1)?))
    })?;
    for name in ["ntohl", "htonl"] {
        let swapped = |number: i64| i64::from(u32::from_be(number as u32));
        db.create_scalar_function(name, 1, fixed, move |c| Ok(number(c)?.map(swapped)))?;
    }
    for name in ["ntohs", "htons"] {
        let swapped = |number: i64| i64::from(u16::from_be(number as u16));
        db.create_scalar_function(name, 1, fixed, move |c| Ok(number(c)?.map(swapped)))?;
    }
    Ok(())
}

fn number(context: &Context<'_>) -> rusqlite::Result<Option<i64>> {
    context.get(0)
}
