//! The functions of task states that compiled Lua calls; see [`crate::stat::leaf`].

use super::States;
use crate::base::event::slot::Slot;
use crate::stat::leaf::event_at;
use std::{cell::RefCell, ffi::c_void};

/// Returns the leaves of [`States`] besides its `take_event`, as name and address:
///
/// - `move(p, slot, tid, time, mask, state)`: a [`Moved`](super::Moved),
/// - `switch(p, slot, prev, next, time, state)`: the result of [`States::switch`],
/// - `leave(p, tid, time)`: as `move`,
/// - `still(p, index, time)`: the index to continue with, or 0.
pub fn leaves() -> [(&'static str, *mut c_void); 4] {
    [
        ("move", move_to as *mut c_void),
        ("switch", switch as *mut c_void),
        ("leave", leave as *mut c_void),
        ("still", still as *mut c_void),
    ]
}

unsafe extern "C" fn still(this: *const RefCell<States>, index: u32, time: f64) -> u32 {
    // SAFETY: Lua passes the pointer that came with this function's address; see `stat::leaf`.
    let this = unsafe { &*this };
    this.try_borrow_mut().map_or(0, |mut this| this.still(index, time))
}

unsafe extern "C" fn switch(
    this: *const RefCell<States>,
    slot: *const Slot,
    prev: u32,
    next: u32,
    time: f64,
    state: i32,
) -> u32 {
    // SAFETY: Lua passes the pointer that came with this function's address; see `stat::leaf`.
    let this = unsafe { &*this };
    // SAFETY: Lua passes null or the slot at its cursor, which is valid until the batch ends.
    let event = unsafe { event_at(slot) };
    this.try_borrow_mut().map_or(0, |mut this| this.switch(event, prev, next, time, state))
}

unsafe extern "C" fn move_to(
    this: *const RefCell<States>,
    slot: *const Slot,
    tid: u32,
    time: f64,
    mask: u32,
    state: i32,
) -> u32 {
    // SAFETY: Lua passes the pointer that came with this function's address; see `stat::leaf`.
    let this = unsafe { &*this };
    // SAFETY: Lua passes null or the slot at its cursor, which is valid until the batch ends.
    let event = unsafe { event_at(slot) };
    this.try_borrow_mut().map_or(1, |mut this| this.move_to(event, tid, time, mask, state) as u32)
}

unsafe extern "C" fn leave(this: *const RefCell<States>, tid: u32, time: f64) -> u32 {
    // SAFETY: Lua passes the pointer that came with this function's address; see `stat::leaf`.
    let this = unsafe { &*this };
    this.try_borrow_mut().map_or(1, |mut this| this.leave(tid, time) as u32)
}
