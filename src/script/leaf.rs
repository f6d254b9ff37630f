//! Leaves of a run: the functions that compiled Lua calls directly, and the one place where its
//! addresses become references.
//!
//! Lua holds the context's address as a number, so the context lives in a box that does not move.
//! It is entered from one thread, by one leaf or one function at a time, never both: leaves do not
//! call back, and functions do not run Lua while inside. A leaf never unwinds: it panics only on an
//! error of the runtime itself, and then ends the process.

use std::cell::{Cell, UnsafeCell};
use std::ffi::c_void;
use std::rc::Rc;

use mlua::{Function, Lua, LuaString, Table};

use super::aggregate;
use super::context::{EmitExtras, NoOutput, RunContext};
use super::guard::pause::off_the_clock;
use crate::base::chain;
use crate::base::draw::{DetailPosition, Stamp};
use crate::base::slot::Slot;
use crate::decode::clock::Clock;
use crate::source::Batch;
use crate::stat::history::History;
use crate::stat::leaf::BorrowedEvent;
use crate::task::Tasks;

/// The handle to a run's context.
#[derive(Clone)]
pub struct SharedContext(Rc<ContextCell>);

struct ContextCell {
    context: UnsafeCell<RunContext>,
    entered: Cell<bool>,
}

impl SharedContext {
    /// Creates a context for a script that is only loaded; its output is discarded.
    pub fn idle() -> Self {
        SharedContext::new(RunContext::new(
            Box::new(NoOutput),
            Tasks::new(0),
            Clock::new(Stamp::default(), 0),
        ))
    }

    /// Creates a handle that owns the context.
    pub fn new(context: RunContext) -> Self {
        SharedContext(Rc::new(ContextCell {
            context: UnsafeCell::new(context),
            entered: Cell::new(false),
        }))
    }

    /// Enters the context. Panics if it is entered already, which is an error of the runtime.
    pub fn with<R>(&self, work: impl FnOnce(&mut RunContext) -> R) -> R {
        enter(&self.0, work)
    }

    /// Shares stacks, names and owners with the tables, which ask the context for the owners of the
    /// events that they keep.
    pub(super) fn share(&self, sums: &aggregate::AggregateSettings) {
        self.with(|context| {
            context.stacks = sums.stacks.clone();
            context.naming = sums.naming.clone();
            context.owners = sums.owners.clone();
        });
        // Weak, because the context holds the owners, which hold this closure.
        let inner = Rc::downgrade(&self.0);
        sums.owners.ask_by(Box::new(move |event| {
            let owner =
                |inner: Rc<ContextCell>| enter(&inner, |context| context.owner_of_event(event));
            inner.upgrade().map(owner).unwrap_or_default()
        }));
    }

    /// Returns the address that leaves take.
    pub(super) fn address(&self) -> *const c_void {
        Rc::as_ptr(&self.0).cast()
    }
}

fn enter<R>(inner: &ContextCell, work: impl FnOnce(&mut RunContext) -> R) -> R {
    assert!(!inner.entered.replace(true), "the context was entered twice");
    // SAFETY: `entered` proves that no other reference is alive; the type is neither Send nor Sync.
    let result = work(unsafe { &mut *inner.context.get() });
    inner.entered.set(false);
    result
}

/// Returns the name of a task, NUL-terminated, valid until the next call. FFI leaf.
///
/// # Safety
/// `context` is [`Shared::address`] of a living context.
pub(super) unsafe extern "C" fn comm(context: *const c_void, tid: u32, cpu: u32) -> *const u8 {
    // SAFETY: the caller's promise.
    let inner = unsafe { &*context.cast::<ContextCell>() };
    enter(inner, |context| {
        context.comm = context.comm_of(tid, cpu);
        context.comm.as_ptr()
    })
}

/// Returns the name of a slot's task, NUL-terminated, valid until the next call. FFI leaf.
///
/// # Safety
/// As [`emit`].
pub(super) unsafe extern "C" fn own_comm(context: *const c_void, slot: *const Slot) -> *const u8 {
    // SAFETY: the caller's promise.
    let (inner, slot) = unsafe { (&*context.cast::<ContextCell>(), &*slot) };
    enter(inner, |context| {
        context.comm = context.comm_of_slot(slot);
        context.comm.as_ptr()
    })
}

/// Returns the id of the stack of a slot that has a call chain. FFI leaf.
///
/// # Safety
/// As [`emit`].
pub(super) unsafe extern "C" fn stack_of(context: *const c_void, slot: *const Slot) -> f64 {
    // SAFETY: the caller's promise.
    let (inner, slot) = unsafe { (&*context.cast::<ContextCell>(), &*slot) };
    // SAFETY: likewise.
    let chain = unsafe { chain_of(slot) };
    // Ids are below 2^53.
    enter(inner, |context| context.stack_of(slot, chain) as f64)
}

/// Returns the id of a stack of one frame: the function that contains a slot's `ip`. FFI leaf.
///
/// # Safety
/// As [`emit`].
pub(super) unsafe extern "C" fn function_of(context: *const c_void, slot: *const Slot) -> f64 {
    // SAFETY: the caller's promise.
    let (inner, slot) = unsafe { (&*context.cast::<ContextCell>(), &*slot) };
    // Kernel addresses are the upper half.
    let chain = [if slot.ip >> 63 == 0 { chain::USER } else { chain::KERNEL }, slot.ip];
    enter(inner, |context| context.stack_of(slot, &chain) as f64)
}

/// Copies a kept event to a slot that does not change until the next call, and returns that slot:
/// script code that runs while it is read may change the table that keeps the event. FFI leaf.
///
/// # Safety
/// As [`emit`].
pub(super) unsafe extern "C" fn show(context: *const c_void, slot: *const Slot) -> *const Slot {
    // SAFETY: the caller's promise.
    let (inner, slot) = unsafe { (&*context.cast::<ContextCell>(), &*slot) };
    // SAFETY: likewise.
    let (raw, chain) = unsafe { (raw_of(slot), chain_of(slot)) };
    enter(inner, |context| context.shown.show(&context.owners, BorrowedEvent { slot, raw, chain }))
}

/// Prints the event of a slot. FFI leaf.
///
/// # Safety
/// `context` is [`Shared::address`] of a living context; `slot` is a slot of the running batch or a
/// kept one.
pub(super) unsafe extern "C" fn emit(context: *const c_void, slot: *const Slot) {
    // SAFETY: the caller's promise.
    let (inner, slot) = unsafe { (&*context.cast::<ContextCell>(), &*slot) };
    // SAFETY: likewise.
    let (raw, chain) = unsafe { (raw_of(slot), chain_of(slot)) };
    enter(inner, |context| context.emit(slot, raw, chain, EmitExtras::default()));
}

/// Returns a slot's event as text, without its name, valid until the next call; its length is
/// [`text_size`]. FFI leaf.
///
/// # Safety
/// As [`emit`].
pub(super) unsafe extern "C" fn text_of(context: *const c_void, slot: *const Slot) -> *const u8 {
    // SAFETY: the caller's promise.
    let (inner, slot) = unsafe { (&*context.cast::<ContextCell>(), &*slot) };
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

/// Returns whether the event of a slot passes a filter of the context. FFI leaf.
///
/// # Safety
/// As [`emit`].
pub(super) unsafe extern "C" fn met(
    context: *const c_void,
    filter: u32,
    slot: *const Slot,
) -> bool {
    // SAFETY: the caller's promise.
    let (inner, slot) = unsafe { (&*context.cast::<ContextCell>(), &*slot) };
    // SAFETY: likewise.
    let raw = unsafe { raw_of(slot) };
    enter(inner, |context| context.meets(filter as usize, slot, raw))
}

/// Returns the length in bytes of the last [`text_of`]. FFI leaf.
///
/// # Safety
/// `context` is [`Shared::address`] of a living context.
pub(super) unsafe extern "C" fn text_size(context: *const c_void) -> u32 {
    // SAFETY: the caller's promise.
    let inner = unsafe { &*context.cast::<ContextCell>() };
    enter(inner, |context| context.text.len() as u32)
}

/// Returns the raw record of a slot.
///
/// # Safety
/// The slot's pointers and sizes are valid.
pub(super) unsafe fn raw_of<'a>(slot: &Slot) -> &'a [u8] {
    if slot.raw.is_null() {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(slot.raw, slot.raw_size as usize) }
}

/// Returns the call chain of a slot.
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

/// Returns the slot at an address that trusted Lua passes as a number, with its record and chain.
///
/// # Safety
/// It is the slot under the cursor or one that a pending state keeps, and its handler runs.
unsafe fn slot_at<'a>(address: f64) -> (&'a Slot, &'a [u8], &'a [u64]) {
    // SAFETY: the caller's promise.
    let slot: &Slot = unsafe { &*(address as usize as *const Slot) };
    // SAFETY: likewise.
    unsafe { (slot, raw_of(slot), chain_of(slot)) }
}

/// Creates `emit_with(address, extra, text, number, offset)`, which prints the event of a slot with
/// further fields (or nil), with this text (or nil, which prints its fields), and as part of the
/// detail of that number (or nil). For the prelude only.
///
/// # Errors
/// Lua is out of memory.
pub(super) fn emit_with(lua: &Lua, shared: &SharedContext) -> mlua::Result<Function> {
    let shared = shared.clone();
    type Asked = (f64, Option<Table>, Option<LuaString>, Option<f64>, Option<f64>);
    lua.create_function(move |_, (address, extra, text, number, offset): Asked| {
        let extra = extra.as_ref().map(super::table::named).transpose()?.unwrap_or_default();
        let text = text.as_ref().map(LuaString::as_bytes);
        let detail = number.zip(offset);
        let detail =
            detail.map(|(n, ns)| DetailPosition { number: n as u64, offset_ns: ns as i64 });
        // SAFETY: only `emit.lua` calls this, with the slot under the cursor, one that a pending
        // state keeps or the one that a history has read.
        let (slot, raw, chain) = unsafe { slot_at(address) };
        let extras = EmitExtras { text: text.as_deref(), extra: &extra, detail };
        // A long detail is not an endless loop of a script.
        off_the_clock(|| shared.with(|context| context.emit(slot, raw, chain, extras)));
        Ok(())
    })
}

/// Creates `hides(address)`: whether the event of a slot is caused by perilune and not printed. For
/// the prelude only.
///
/// # Errors
/// Lua is out of memory.
pub(super) fn hides(lua: &Lua, shared: &SharedContext) -> mlua::Result<Function> {
    let shared = shared.clone();
    lua.create_function(move |_, address: f64| {
        // SAFETY: as in `emit_with`.
        let (slot, _, _) = unsafe { slot_at(address) };
        Ok(shared.with(|context| context.hides(slot)))
    })
}

/// Copies a batch into the history, from a slot on. Returns the first slot that has no room before
/// a turn, or the batch's length.
pub(super) fn remember(
    context: &RunContext,
    batch: &Batch,
    from: usize,
    history: &mut History,
) -> usize {
    let mut before = from.checked_sub(1).map_or(&Slot::EMPTY, |at| &batch.slots()[at]);
    for (at, slot) in batch.slots().iter().enumerate().skip(from) {
        // SAFETY: the batch is about to be dispatched: what its slots point to is good until then.
        let (raw, chain) = unsafe { (raw_of(slot), chain_of(slot)) };
        let event = BorrowedEvent { slot, raw, chain };
        let again = (before.raw, before.cpu) == (slot.raw, slot.cpu)
            && before.time == slot.time
            && context.are_of_one_event(before, slot);
        if !history.push(&event, &context.owner_of_event(&event), again) {
            return at;
        }
        before = slot;
    }
    batch.len()
}
