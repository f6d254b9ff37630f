//! The functions of pending state that compiled Lua calls; see [`crate::stat::leaf`].

use super::Pending;
use crate::stat::word::Word;
use std::{cell::RefCell, ffi::c_void};

/// Returns the leaves of [`Pending`] besides its `take_event`, as name and address:
///
/// - `close_call(p, key, time, call, kinds)`: whether there was one,
/// - `close(p, key, time, kinds)` and `get(p, key, kinds)`: whether there was one,
/// - `next(p, index)`: the index to continue with, or 0,
/// - `recall(p)`: makes the event of the closed slot readable,
/// - `set(p, index, generation, field, value, kinds)`: whether the slot is still open,
/// - `miss(p, key, kinds)`,
/// - `len(p)`.
pub fn leaves() -> [(&'static str, *mut c_void); 8] {
    [
        ("close", close as *mut c_void),
        ("close_call", close_call as *mut c_void),
        ("get", get as *mut c_void),
        ("next", next as *mut c_void),
        ("recall", recall as *mut c_void),
        ("set", set as *mut c_void),
        ("miss", miss as *mut c_void),
        ("len", len as *mut c_void),
    ]
}

unsafe extern "C" fn close(this: *const RefCell<Pending>, key: f64, time: f64, kinds: u32) -> u32 {
    // SAFETY: Lua passes the pointer that came with this function's address; see `stat::leaf`.
    let this = unsafe { &*this };
    this.try_borrow_mut()
        .map_or(0, |mut this| u32::from(this.close(Word::passed(key, kinds & 1 != 0), time)))
}

unsafe extern "C" fn close_call(
    this: *const RefCell<Pending>,
    key: f64,
    time: f64,
    call: f64,
    kinds: u32,
) -> u32 {
    // SAFETY: Lua passes the pointer that came with this function's address; see `stat::leaf`.
    let this = unsafe { &*this };
    this.try_borrow_mut().map_or(0, |mut this| {
        u32::from(this.close_call(Word::passed(key, kinds & 1 != 0), time, call))
    })
}

unsafe extern "C" fn get(this: *const RefCell<Pending>, key: f64, kinds: u32) -> u32 {
    // SAFETY: Lua passes the pointer that came with this function's address; see `stat::leaf`.
    let this = unsafe { &*this };
    this.try_borrow_mut()
        .map_or(0, |mut this| u32::from(this.get(Word::passed(key, kinds & 1 != 0))))
}

unsafe extern "C" fn next(this: *const RefCell<Pending>, index: u32) -> u32 {
    // SAFETY: Lua passes the pointer that came with this function's address; see `stat::leaf`.
    let this = unsafe { &*this };
    this.try_borrow_mut().map_or(0, |mut this| this.next(index))
}

unsafe extern "C" fn recall(this: *const RefCell<Pending>) {
    // SAFETY: Lua passes the pointer that came with this function's address; see `stat::leaf`.
    let this = unsafe { &*this };
    this.try_borrow_mut().iter_mut().for_each(|this| this.recall());
}

unsafe extern "C" fn set(
    this: *const RefCell<Pending>,
    index: u32,
    generation: u32,
    field: u32,
    value: f64,
    kinds: u32,
) -> u32 {
    // SAFETY: Lua passes the pointer that came with this function's address; see `stat::leaf`.
    let this = unsafe { &*this };
    this.try_borrow_mut()
        .map_or(0, |mut this| u32::from(this.set(index, generation, field as usize, value, kinds)))
}

unsafe extern "C" fn miss(this: *const RefCell<Pending>, key: f64, kinds: u32) {
    // SAFETY: Lua passes the pointer that came with this function's address; see `stat::leaf`.
    let this = unsafe { &*this };
    this.try_borrow_mut().iter_mut().for_each(|this| this.miss(Word::passed(key, kinds & 1 != 0)));
}

unsafe extern "C" fn len(this: *const RefCell<Pending>) -> u32 {
    // SAFETY: Lua passes the pointer that came with this function's address; see `stat::leaf`.
    let this = unsafe { &*this };
    this.try_borrow().map_or(0, |this| this.len() as u32)
}
