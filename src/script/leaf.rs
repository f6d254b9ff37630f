//! The leaves of a run: what compiled Lua calls directly, and the one place where its addresses become references.
//!
//! Lua holds the context's address as a number, so it lives in a box that does not move. It is entered from one
//! thread, by one leaf or one word at a time, never both: leaves call nothing back, and words do not run
//! Lua while inside. A leaf never unwinds: it panics only where the runtime itself is wrong, and then ends the process.

use std::cell::{Cell, UnsafeCell};
use std::ffi::c_void;
use std::rc::Rc;

use mlua::{Function, Lua, LuaString, Table};

use super::aggregate;
use super::context::{Context, Nowhere, Said};
use super::guard::pause::off_the_clock;
use crate::base::chain;
use crate::base::draw::{Detail, Stamp};
use crate::base::slot::Slot;
use crate::decode::clock::Clock;
use crate::source::Batch;
use crate::stat::history::History;
use crate::stat::leaf::Event;
use crate::task::Tasks;

/// The one handle to a run's context.
#[derive(Clone)]
pub struct Shared(Rc<Inner>);

struct Inner {
    context: UnsafeCell<Context>,
    entered: Cell<bool>,
}

impl Shared {
    /// A context for a script that is only loaded: what it says goes nowhere.
    pub fn idle() -> Self {
        Shared::new(Context::new(Box::new(Nowhere), Tasks::new(0), Clock::new(Stamp::default(), 0)))
    }

    /// Takes the context in.
    pub fn new(context: Context) -> Self {
        Shared(Rc::new(Inner { context: UnsafeCell::new(context), entered: Cell::new(false) }))
    }

    /// Enters the context. A word that would enter it twice is a mistake of the runtime and panics.
    pub fn with<R>(&self, work: impl FnOnce(&mut Context) -> R) -> R {
        enter(&self.0, work)
    }

    /// Gives the context what it has in common with the tables, which ask it whose the events are that they keep.
    pub(super) fn share(&self, sums: &aggregate::Shared) {
        self.with(|context| {
            context.stacks = sums.stacks.clone();
            context.naming = sums.naming.clone();
            context.owners = sums.owners.clone();
        });
        // The context leads to those who ask: they must not keep it alive.
        let inner = Rc::downgrade(&self.0);
        sums.owners.ask_by(Box::new(move |event| {
            let whose = |inner: Rc<Inner>| enter(&inner, |context| context.whose(event));
            inner.upgrade().map(whose).unwrap_or_default()
        }));
    }

    /// The address that leaves take.
    pub(super) fn address(&self) -> *const c_void {
        Rc::as_ptr(&self.0).cast()
    }
}

fn enter<R>(inner: &Inner, work: impl FnOnce(&mut Context) -> R) -> R {
    assert!(!inner.entered.replace(true), "the context was entered twice");
    // SAFETY: `entered` proves that no other reference is alive; the type is neither Send nor Sync.
    let result = work(unsafe { &mut *inner.context.get() });
    inner.entered.set(false);
    result
}

/// The name of a task, NUL-terminated, good until the next call. FFI leaf.
///
/// # Safety
/// `context` is [`Shared::address`] of a living context.
pub(super) unsafe extern "C" fn comm(context: *const c_void, tid: u32, cpu: u32) -> *const u8 {
    // SAFETY: the caller's promise.
    let inner = unsafe { &*context.cast::<Inner>() };
    enter(inner, |context| {
        context.comm = context.comm_of(tid, cpu);
        context.comm.as_ptr()
    })
}

/// The name of a slot's task, NUL-terminated, good until the next call. FFI leaf.
///
/// # Safety
/// As [`emit`].
pub(super) unsafe extern "C" fn own_comm(context: *const c_void, slot: *const Slot) -> *const u8 {
    // SAFETY: the caller's promise.
    let (inner, slot) = unsafe { (&*context.cast::<Inner>(), &*slot) };
    enter(inner, |context| {
        context.comm = context.comm_of_slot(slot);
        context.comm.as_ptr()
    })
}

/// The id of the stack of a slot that has a call chain. FFI leaf.
///
/// # Safety
/// As [`emit`].
pub(super) unsafe extern "C" fn stack_of(context: *const c_void, slot: *const Slot) -> f64 {
    // SAFETY: the caller's promise.
    let (inner, slot) = unsafe { (&*context.cast::<Inner>(), &*slot) };
    // SAFETY: likewise.
    let chain = unsafe { chain_of(slot) };
    // Ids are below 2^53.
    enter(inner, |context| context.stack_of(slot, chain) as f64)
}

/// The id of a stack of one frame: the function that a slot's `ip` lies in. FFI leaf.
///
/// # Safety
/// As [`emit`].
pub(super) unsafe extern "C" fn function_of(context: *const c_void, slot: *const Slot) -> f64 {
    // SAFETY: the caller's promise.
    let (inner, slot) = unsafe { (&*context.cast::<Inner>(), &*slot) };
    // The kernel lies in the upper half of the addresses.
    let chain = [if slot.ip >> 63 == 0 { chain::USER } else { chain::KERNEL }, slot.ip];
    enter(inner, |context| context.stack_of(slot, &chain) as f64)
}

/// Copies a kept event to where it stays as it is until the next call, and returns that slot:
/// script code that runs while it is read may change the table that keeps it. FFI leaf.
///
/// # Safety
/// As [`emit`].
pub(super) unsafe extern "C" fn show(context: *const c_void, slot: *const Slot) -> *const Slot {
    // SAFETY: the caller's promise.
    let (inner, slot) = unsafe { (&*context.cast::<Inner>(), &*slot) };
    // SAFETY: likewise.
    let (raw, chain) = unsafe { (raw_of(slot), chain_of(slot)) };
    enter(inner, |context| context.shown.show(&context.owners, Event { slot, raw, chain }))
}

/// Prints the event of a slot. FFI leaf.
///
/// # Safety
/// `context` is [`Shared::address`] of a living context; `slot` is a slot of the running batch or a kept one.
pub(super) unsafe extern "C" fn emit(context: *const c_void, slot: *const Slot) {
    // SAFETY: the caller's promise.
    let (inner, slot) = unsafe { (&*context.cast::<Inner>(), &*slot) };
    // SAFETY: likewise.
    let (raw, chain) = unsafe { (raw_of(slot), chain_of(slot)) };
    enter(inner, |context| context.emit(slot, raw, chain, Said::default()));
}

/// A slot's event as text, behind its name, good until the next call; its length is [`text_size`]. FFI leaf.
///
/// # Safety
/// As [`emit`].
pub(super) unsafe extern "C" fn text_of(context: *const c_void, slot: *const Slot) -> *const u8 {
    // SAFETY: the caller's promise.
    let (inner, slot) = unsafe { (&*context.cast::<Inner>(), &*slot) };
    // SAFETY: likewise.
    let raw = unsafe { raw_of(slot) };
    enter(inner, |context| {
        context.text.clear();
        if let Some(event) = context.roles.get(slot.ev as usize) {
            context.texts.push(&mut context.text, slot.ev as usize, event, raw);
        }
        context.text.as_ptr()
    })
}

/// Whether the event of a slot meets a filter of the context. FFI leaf.
///
/// # Safety
/// As [`emit`].
pub(super) unsafe extern "C" fn met(
    context: *const c_void,
    filter: u32,
    slot: *const Slot,
) -> bool {
    // SAFETY: the caller's promise.
    let (inner, slot) = unsafe { (&*context.cast::<Inner>(), &*slot) };
    // SAFETY: likewise.
    let raw = unsafe { raw_of(slot) };
    enter(inner, |context| context.meets(filter as usize, slot, raw))
}

/// Bytes of the last [`text_of`]. FFI leaf.
///
/// # Safety
/// `context` is [`Shared::address`] of a living context.
pub(super) unsafe extern "C" fn text_size(context: *const c_void) -> u32 {
    // SAFETY: the caller's promise.
    let inner = unsafe { &*context.cast::<Inner>() };
    enter(inner, |context| context.text.len() as u32)
}

/// The raw record of a slot.
///
/// # Safety
/// The slot's pointers lead to what they say.
pub(super) unsafe fn raw_of<'a>(slot: &Slot) -> &'a [u8] {
    if slot.raw.is_null() {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(slot.raw, slot.raw_size as usize) }
}

/// The call chain of a slot.
///
/// # Safety
/// As [`raw_of`].
pub(super) unsafe fn chain_of<'a>(slot: &Slot) -> &'a [u64] {
    if slot.chain.is_null() {
        return &[];
    }
    // SAFETY: the caller's promise; records are 8-byte aligned in the ring.
    unsafe { std::slice::from_raw_parts(slot.chain, slot.chain_len as usize) }
}

/// The slot at an address that trusted Lua passes as a number, with what it points to.
///
/// # Safety
/// It is the slot under the cursor or one that a pending state keeps, and its handler runs.
unsafe fn slot_at<'a>(address: f64) -> (&'a Slot, &'a [u8], &'a [u64]) {
    // SAFETY: the caller's promise.
    let slot: &Slot = unsafe { &*(address as usize as *const Slot) };
    // SAFETY: likewise.
    unsafe { (slot, raw_of(slot), chain_of(slot)) }
}

/// `emit_with(address, extra, text, number, offset)`: prints the event of a slot with further fields (or nil), as this text (or
/// nil, which prints its fields), and as a part of the detail of that number (or nil). For the prelude only.
pub(super) fn emit_with(lua: &Lua, shared: &Shared) -> mlua::Result<Function> {
    let shared = shared.clone();
    type Asked = (f64, Option<Table>, Option<LuaString>, Option<f64>, Option<f64>);
    lua.create_function(move |_, (address, extra, text, number, offset): Asked| {
        let extra = extra.as_ref().map(super::table::named).transpose()?.unwrap_or_default();
        let text = text.as_ref().map(LuaString::as_bytes);
        let detail = number.zip(offset);
        let detail = detail.map(|(n, ns)| Detail { number: n as u64, offset_ns: ns as i64 });
        // SAFETY: only `emit.lua` calls this, with the slot under the cursor, one that a pending state keeps or the one that a
        // history has read.
        let (slot, raw, chain) = unsafe { slot_at(address) };
        let said = Said { text: text.as_deref(), extra: &extra, detail };
        // A long detail is no loop that a script got stuck in.
        off_the_clock(|| shared.with(|context| context.emit(slot, raw, chain, said)));
        Ok(())
    })
}

/// `hides(address)`: whether the event of a slot is our own doing, which is not printed. For the prelude only.
pub(super) fn hides(lua: &Lua, shared: &Shared) -> mlua::Result<Function> {
    let shared = shared.clone();
    lua.create_function(move |_, address: f64| {
        // SAFETY: as in `emit_with`.
        let (slot, _, _) = unsafe { slot_at(address) };
        Ok(shared.with(|context| context.hides(slot)))
    })
}

/// Copies a batch into the history, from a slot on; gives the first that has no room before a turn, or the batch's end.
pub(super) fn remember(
    context: &Context,
    batch: &Batch,
    from: usize,
    history: &mut History,
) -> usize {
    let mut before = from.checked_sub(1).map_or(&Slot::EMPTY, |at| &batch.slots()[at]);
    for (at, slot) in batch.slots().iter().enumerate().skip(from) {
        // SAFETY: the batch is about to be dispatched: what its slots point to is good until then.
        let (raw, chain) = unsafe { (raw_of(slot), chain_of(slot)) };
        let event = Event { slot, raw, chain };
        let again = (before.raw, before.cpu) == (slot.raw, slot.cpu)
            && before.time == slot.time
            && context.are_of_one_event(before, slot);
        if !history.push(&event, &context.whose(&event), again) {
            return at;
        }
        before = slot;
    }
    batch.len()
}
