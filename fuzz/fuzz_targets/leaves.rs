//! Makes any calls of the leaf functions that compiled Lua calls, on small tables, with any doubles
//! and events; reads every readable event after each call. Run it with the address sanitizer.
#![no_main]

use std::cell::RefCell;
use std::ffi::c_void;
use std::rc::Rc;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use perilune::base::event::slot::Slot;
use perilune::stat::budget::Budget;
use perilune::stat::event_copy::EventOwner;
use perilune::stat::hist::{Histograms, Scale};
use perilune::stat::kv::{Kv, KvOptions};
use perilune::stat::latency::Latency;
use perilune::stat::leaf::{self, BorrowedEvent, SharedAggregate};
use perilune::stat::owners::{Owners, PrintedCopy};
use perilune::stat::pending::{Pending, PendingOptions, PendingState};
use perilune::stat::rate::Rates;
use perilune::stat::states::{States, StatesOptions};

/// An incoming event: its record, its call chain and its task.
#[derive(Arbitrary, Debug, Clone)]
struct Seen {
    raw: Vec<u8>,
    chain: Vec<u64>,
    tid: u8,
}

#[derive(Arbitrary, Debug)]
enum Call {
    Add {
        table: u8,
        doubles: [f64; 4],
        flags: u32,
    },
    Open {
        event: Option<Seen>,
        key: u8,
        time: u16,
        values: [f64; 2],
        kinds: u32,
    },
    Close {
        key: u8,
        time: u16,
        call: Option<u8>,
    },
    Get {
        key: u8,
    },
    Next {
        index: u8,
    },
    Set {
        field: u8,
        value: f64,
        kinds: u32,
    },
    Enter {
        event: Option<Seen>,
        tid: u8,
        time: u16,
        state: i8,
    },
    Move {
        event: Option<Seen>,
        tid: u8,
        time: u16,
        mask: u8,
        state: i8,
    },
    Switch {
        event: Option<Seen>,
        prev: u8,
        next: u8,
        time: u16,
        state: i8,
    },
    Leave {
        tid: u8,
        time: u16,
    },
    Still {
        index: u8,
        time: u16,
    },
    Batch {
        events: Vec<Seen>,
    },
    Lose {
        before: u16,
    },
    Exit {
        tid: u8,
    },
    /// Changes the table that stores an event while a copy of the event is shown.
    Show {
        then: Box<Call>,
    },
}

struct Tables {
    kv: SharedAggregate<Kv>,
    latency: SharedAggregate<Latency>,
    hist: SharedAggregate<Histograms>,
    rate: SharedAggregate<Rates>,
    pending: SharedAggregate<Pending>,
    states: SharedAggregate<States>,
    owners: Rc<Owners>,
    shown: PrintedCopy,
}

fn share<T>(value: T) -> SharedAggregate<T> {
    Rc::new(RefCell::new(value))
}

fn slot_of(event: &Seen, time: f64) -> Slot {
    let (raw_size, chain_len) = (event.raw.len().min(60_000), event.chain.len().min(127));
    Slot {
        time,
        raw: event.raw.as_ptr(),
        raw_size: raw_size as u16,
        chain: event.chain.as_ptr(),
        chain_len: chain_len as u16,
        tid: event.tid.into(),
        ..Slot::EMPTY
    }
}

/// Reads the record and the chain that a slot points to.
fn read(slot: *const Slot) -> u64 {
    // SAFETY: the pointer comes from a leaf, which returns null or a valid pointer; this is what
    // the target tests.
    let Some(slot) = (unsafe { slot.as_ref() }) else { return 0 };
    // SAFETY: a leaf returns only slots whose record has `raw_size` bytes; the target tests this.
    let raw = (0..usize::from(slot.raw_size)).map(|at| u64::from(unsafe { *slot.raw.add(at) }));
    // SAFETY: a leaf returns only slots whose chain has `chain_len` entries; the target tests this.
    let chain = (0..usize::from(slot.chain_len)).map(|at| unsafe { *slot.chain.add(at) });
    raw.chain(chain).fold(0, u64::wrapping_add)
}

impl Tables {
    fn new(with_history: bool) -> Tables {
        let budget = Rc::new(Budget::default());
        budget.set_size(64 << 10);
        let owners = Rc::new(Owners::default());
        if with_history {
            owners.past_or_begin(8 << 10);
        }
        let of_kv = KvOptions { keys: 2, sums: 2, first: vec![1], named: true, bound: 4 << 10 };
        let pending = PendingOptions {
            values: 2,
            by_task: true,
            keep_lost: false,
            nested: !with_history,
            uretprobes: false,
            keep_event: true,
            age: 30_000.0,
            bound: 4 << 10,
        };
        let of_states =
            StatesOptions { values: 1, state: 0, than: 5.0, keep_event: true, bound: 4 << 10 };
        let spent = share(Latency::new(1, 4 << 10).with_budget(&budget));
        Tables {
            kv: share(Kv::new(of_kv).with_budget(&budget)),
            latency: share(Latency::new(3, 4 << 10).with_budget(&budget)),
            hist: share(Histograms::new(Scale::Log2, 3, 4 << 10).with_budget(&budget)),
            rate: share(Rates::new(100.0, 1, 4 << 10).with_budget(&budget)),
            pending: share(Pending::new(pending).with_owners(&owners).with_budget(&budget)),
            states: share(States::new(of_states, spent).with_owners(&owners).with_budget(&budget)),
            owners,
            shown: PrintedCopy::default(),
        }
    }

    fn add(&self, table: u8, d: [f64; 4], flags: u32) {
        type Take = unsafe extern "C" fn(*const c_void, f64, f64, f64, f64, u32) -> u32;
        type TakeTwo = unsafe extern "C" fn(*const c_void, f64, f64, u32) -> u32;
        let (leaf, pointer) = match table % 4 {
            0 => (leaf::take::<Kv>(4), leaf::pointer(&self.kv)),
            1 => (leaf::take::<Latency>(4), leaf::pointer(&self.latency)),
            2 => (leaf::take::<Histograms>(4), leaf::pointer(&self.hist)),
            _ => (leaf::take::<Rates>(2), leaf::pointer(&self.rate)),
        };
        let leaf = leaf.expect("a leaf of so many doubles");
        // SAFETY: the type is the leaf's own, and the pointer is that of its table.
        unsafe {
            if table % 4 == 3 {
                std::mem::transmute::<*mut c_void, TakeTwo>(leaf)(pointer, d[0], d[1], flags);
            } else {
                std::mem::transmute::<*mut c_void, Take>(leaf)(
                    pointer, d[0], d[1], d[2], d[3], flags,
                );
            }
        }
    }

    /// Returns the slots that can be read now.
    fn handed_out(&self) -> [*const Slot; 3] {
        let (pending, states) = (self.pending.borrow(), self.states.borrow());
        let event = |state: &PendingState| state.event;
        [event(pending.closed()), event(pending.read()), event(states.ended())]
    }

    fn open(&self, event: Option<&Seen>, key: u8, time: u16, values: [f64; 2], kinds: u32) {
        let slot = event.map(|event| slot_of(event, time.into()));
        type Open =
            unsafe extern "C" fn(*const c_void, *const Slot, f64, f64, f64, f64, u32) -> u32;
        let open = leaf::open::<Pending>(4).expect("a leaf of four doubles");
        let at = slot.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the type is the leaf's own, the pointer is that of its table, and the
        // slot outlives the call.
        unsafe {
            std::mem::transmute::<*mut c_void, Open>(open)(
                leaf::pointer(&self.pending),
                at,
                key.into(),
                time.into(),
                values[0],
                values[1],
                kinds,
            );
        }
    }

    fn call(&mut self, call: &Call) {
        match call {
            Call::Add { table, doubles, flags } => self.add(*table, *doubles, *flags),
            Call::Open { event, key, time, values, kinds } => {
                self.open(event.as_ref(), *key, *time, *values, *kinds);
            }
            Call::Close { key, time, call } => {
                let key = perilune::stat::word::Word::number((*key).into());
                let mut pending = self.pending.borrow_mut();
                match call {
                    Some(call) => pending.close_call(key, (*time).into(), (*call).into()),
                    None => pending.close(key, (*time).into()),
                };
                pending.recall();
            }
            Call::Get { key } => {
                let key = perilune::stat::word::Word::number((*key).into());
                self.pending.borrow_mut().get(key);
            }
            Call::Next { index } => {
                self.pending.borrow_mut().next((*index).into());
            }
            Call::Set { field, value, kinds } => {
                let mut pending = self.pending.borrow_mut();
                let (index, generation) = (pending.read().index, pending.read().generation);
                pending.set(index, generation, (*field).into(), *value, *kinds);
            }
            Call::Enter { event, tid, time, state } => {
                self.with(event, *time, |states, event, time| {
                    states.enter(event, &[(*tid).into(), time, (*state).into()], 0);
                })
            }
            Call::Move { event, tid, time, mask, state } => {
                self.with(event, *time, |states, event, time| {
                    states.move_to(event, (*tid).into(), time, (*mask).into(), (*state).into());
                })
            }
            Call::Switch { event, prev, next, time, state } => {
                self.with(event, *time, |states, event, time| {
                    states.switch(event, (*prev).into(), (*next).into(), time, (*state).into());
                })
            }
            Call::Leave { tid, time } => {
                self.states.borrow_mut().leave((*tid).into(), (*time).into());
            }
            Call::Still { index, time } => {
                self.states.borrow_mut().still((*index).into(), (*time).into());
            }
            Call::Batch { events } => self.batch(events),
            Call::Lose { before } => {
                self.pending.borrow_mut().drop_before((*before).into());
                self.states.borrow_mut().drop_before((*before).into());
            }
            Call::Exit { tid } => self.pending.borrow_mut().drop_task((*tid).into()),
            Call::Show { then } => self.show(then),
        }
    }

    fn with(
        &self,
        event: &Option<Seen>,
        time: u16,
        enter: impl FnOnce(&mut States, Option<BorrowedEvent<'_>>, f64),
    ) {
        let slot = event.as_ref().map(|event| slot_of(event, time.into()));
        let event = slot.as_ref().zip(event.as_ref()).map(|(slot, event)| BorrowedEvent {
            slot,
            raw: &event.raw[..slot.raw_size.into()],
            chain: &event.chain[..slot.chain_len.into()],
        });
        enter(&mut self.states.borrow_mut(), event, time.into());
    }

    /// Works like the host: stores a batch in the history and copies what is evicted for it, before
    /// the events of the batch are handled.
    fn batch(&self, events: &[Seen]) {
        let Some(past) = self.owners.past() else { return };
        let slots: Vec<Slot> = events.iter().map(|event| slot_of(event, 1.0)).collect();
        let mut history = past.borrow_mut();
        history.begin_batch(&slots);
        for (slot, event) in slots.iter().zip(events) {
            let (raw, chain) =
                (&event.raw[..slot.raw_size.into()], &event.chain[..slot.chain_len.into()]);
            let event = BorrowedEvent { slot, raw, chain };
            while !history.push(&event, &EventOwner::default(), false) {
                let room = history.room(f64::NEG_INFINITY);
                self.pending.borrow_mut().rescue(&history, room);
                history.turn(room);
            }
        }
        drop(history);
        for (n, slot) in slots.iter().enumerate() {
            let event = BorrowedEvent {
                slot,
                raw: &events[n].raw[..slot.raw_size.into()],
                chain: &events[n].chain[..slot.chain_len.into()],
            };
            self.pending.borrow_mut().open(Some(event), &[n as f64, 1.0, 0.0, 0.0], 0);
        }
        past.borrow_mut().between(0.0, 1e9);
        while past.borrow_mut().advance().is_some() {
            read(past.borrow().read());
        }
        // The slots end here: no stored state may point to them any more.
        self.pending.borrow_mut().recall();
    }

    fn show(&mut self, then: &Call) {
        for slot in self.handed_out() {
            // SAFETY: a leaf returned the pointer; it is null or valid, which the target tests.
            let Some(slot) = (unsafe { slot.as_ref() }) else { continue };
            if slot.raw.is_null() || slot.chain.is_null() {
                continue;
            }
            // SAFETY: the record is not null and has `raw_size` bytes, which the target tests.
            let raw = unsafe { std::slice::from_raw_parts(slot.raw, slot.raw_size.into()) };
            // SAFETY: the chain is not null and has `chain_len` entries, which the target tests.
            let chain = unsafe { std::slice::from_raw_parts(slot.chain, slot.chain_len.into()) };
            let shown = self.shown.show(&self.owners, BorrowedEvent { slot, raw, chain });
            let before = read(shown);
            if !matches!(then, Call::Show { .. }) {
                self.call(then);
            }
            assert_eq!(read(shown), before, "what is shown has changed");
        }
    }
}

fuzz_target!(|input: (bool, Vec<Call>)| {
    let (with_history, calls) = input;
    let mut tables = Tables::new(with_history);
    for call in &calls {
        tables.call(call);
        tables.handed_out().into_iter().for_each(|slot| {
            read(slot);
        });
    }
});
