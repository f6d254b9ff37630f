//! A BPF machine with the maps of pairs: records and values of maps are one memory, so that a
//! program can only access those.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};

use perilune::bpf::argument_record::with_context;
use perilune::bpf::bucket::BUCKETS;
use perilune::bpf::instruction::BpfHelper;
use perilune::bpf::pair::layout::{PAIR_COUNTERS, PairLayout};
use perilune::bpf::pair::{PairMaps, PairedEvent};
use perilune::bpf::task_scope::TaskScope;

/// The descriptors of the maps. Both tables are one, with this number.
pub(crate) const MAPS: PairMaps = PairMaps {
    tables: 11,
    starts: 12,
    active: 13,
    added: 18,
    rest: 14,
    rest_buckets: 15,
    counters: 16,
    undefined: 17,
    records: 19,
    scope: TaskScope { threads: None, cgroups: None },
};
const TABLE: u64 = 21;

/// The name of the task.
pub(crate) const COMM: [u8; 16] = *b"a task\0\0\0\0\0\0\0\0\0\0";

/// Bytes for records and values.
const MEMORY: usize = 16 << 20;
/// Bytes of a record.
const RECORD: usize = 96;

/// The content of the maps, in words.
#[derive(Clone, Debug, Default)]
pub(crate) struct Maps {
    pub(crate) table: BTreeMap<Vec<u64>, Vec<u64>>,
    pub(crate) starts: BTreeMap<Vec<u64>, Vec<u64>>,
    pub(crate) rest: BTreeMap<usize, Vec<u64>>,
    /// Counts by index and bucket.
    pub(crate) rest_buckets: BTreeMap<(usize, usize), u64>,
    /// Of each table.
    pub(crate) counters: [[u64; PAIR_COUNTERS.len()]; 2],
    pub(crate) undefined: u64,
}

/// The maps as the helpers of a running program find them.
#[derive(Default)]
struct State {
    /// The address of the memory while a program runs.
    base: u64,
    used: usize,
    /// The place of each value in the memory.
    places: HashMap<(u64, Vec<u8>), usize>,
    /// Bytes of a key and a value, and the number of keys, by map.
    shapes: HashMap<u64, (usize, usize, usize)>,
    time: u64,
    task: u64,
    cpu: u64,
    /// The records that programs have written, and what writing one returns.
    written: Vec<Vec<u8>>,
    refusal: i64,
}

thread_local! {
    static STATE: RefCell<State> = RefCell::default();
}

pub(crate) struct Machine {
    layout: PairLayout,
    memory: RefCell<Vec<u8>>,
}

impl Machine {
    /// Creates empty maps with room for this many starts and rows.
    pub(crate) fn new(layout: &PairLayout, starts: usize, rows: usize) -> Machine {
        let (counters, row_bytes) = (8 * PAIR_COUNTERS.len(), layout.row_bytes());
        let shapes = [
            (TABLE, (layout.key_bytes(), row_bytes, rows)),
            (MAPS.starts as u64, (layout.pair.bytes(), layout.start_bytes(), starts)),
            (MAPS.tables as u64, (4, 4, 2)),
            (MAPS.active as u64, (4, 4, 1)),
            (MAPS.added as u64, (4, 8, 2)),
            (MAPS.rest as u64, (4, row_bytes, 2 * layout.rest_rows())),
            (MAPS.rest_buckets as u64, (4, 8, 2 * BUCKETS)),
            (MAPS.counters as u64, (4, counters, 2)),
            (MAPS.undefined as u64, (4, 8, 1)),
        ];
        let state =
            State { used: RECORD, shapes: shapes.into_iter().collect(), ..State::default() };
        STATE.set(state);
        Machine { layout: layout.clone(), memory: RefCell::new(vec![0; MEMORY]) }
    }

    /// Returns the bytes of a program.
    pub(crate) fn load(&self, event: &PairedEvent) -> Vec<u8> {
        let code = event.program(&self.layout, MAPS, |_, _| ());
        self.load_code(code.and_then(|code| with_context(&code)))
    }

    pub(crate) fn load_code(&self, code: Option<Vec<u64>>) -> Vec<u8> {
        let code = code.expect("a program of a valid layout");
        code.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// Runs a program at an event.
    pub(crate) fn run(&self, program: &[u8], record: &[u8], time: i64, thread: u64, cpu: u64) {
        let mut memory = self.memory.borrow_mut();
        memory[..record.len()].copy_from_slice(record);
        let base = memory.as_mut_ptr() as u64;
        STATE.with_borrow_mut(|state| {
            (state.base, state.time, state.cpu) = (base, time.cast_unsigned(), cpu);
            state.task = 77 << 32 | thread;
        });
        let mut machine = rbpf::EbpfVmRaw::new(Some(program)).expect("a valid program");
        for (helper, function) in [
            (BpfHelper::MapLookup, look_up as rbpf::Helper),
            (BpfHelper::MapUpdate, update),
            (BpfHelper::MapDelete, delete),
            (BpfHelper::TimeNs, |_, _, _, _, _| STATE.with_borrow(|state| state.time)),
            (BpfHelper::ProcessorId, |_, _, _, _, _| STATE.with_borrow(|state| state.cpu)),
            (BpfHelper::CurrentTask, |_, _, _, _, _| STATE.with_borrow(|state| state.task)),
            (BpfHelper::PerfOutput, write_record),
            (BpfHelper::CurrentComm, name_task),
            (BpfHelper::ReadKernel, read),
            (BpfHelper::ReadKernelText, read_text),
        ] {
            machine.register_helper(helper as u32, function).expect("a helper");
        }
        let result = machine.execute_program(&mut memory).expect("valid accesses only");
        assert_eq!(result, 1, "0 would drop the records of other perf users");
    }

    /// Returns the records that programs have written since the last call.
    pub(crate) fn take_written(&self) -> Vec<Vec<u8>> {
        STATE.with_borrow_mut(|state| std::mem::take(&mut state.written))
    }

    /// Sets what writing a record returns, if it is not 0: a refusal.
    pub(crate) fn refuse_records(&self, errno: i32) {
        STATE.with_borrow_mut(|state| state.refusal = -i64::from(errno));
    }

    /// Sets the index of the table in use.
    pub(crate) fn use_table(&self, active: u32) {
        let mut memory = self.memory.borrow_mut();
        STATE.with_borrow_mut(|state| {
            let at = state.place(MAPS.active as u64, &[0; 4], true).expect("room");
            memory[at..at + 4].copy_from_slice(&active.to_ne_bytes());
        });
    }

    /// Passes the content of the maps.
    pub(crate) fn maps<R>(&self, take: impl FnOnce(&Maps) -> R) -> R {
        let memory = self.memory.borrow();
        let mut maps = Maps::default();
        STATE.with_borrow(|state| {
            for ((map, key), at) in &state.places {
                let (_, bytes, _) = state.shapes[map];
                let value = words(&memory[*at..*at + bytes.next_multiple_of(8)]);
                let index = || u32::from_ne_bytes(key[..4].try_into().expect("4 bytes")) as usize;
                match i32::try_from(*map).expect("a descriptor") {
                    map if map == MAPS.starts => drop(maps.starts.insert(words(key), value)),
                    map if map == MAPS.rest => drop(maps.rest.insert(index(), value)),
                    map if map == MAPS.counters => maps.counters[index()].copy_from_slice(&value),
                    map if map == MAPS.undefined => maps.undefined = value[0],
                    map if map == MAPS.rest_buckets => {
                        let place = (index() / BUCKETS, index() % BUCKETS);
                        maps.rest_buckets.insert(place, value[0]);
                    }
                    map if map as u64 == TABLE => drop(maps.table.insert(words(key), value)),
                    _ => {}
                }
            }
        });
        take(&maps)
    }
}

fn words(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks(8).map(|word| u64::from_ne_bytes(word.try_into().expect("8 bytes"))).collect()
}

impl State {
    /// Returns the place of a value. A key that is not there gets one if it is in an array, or if
    /// `insert` is set and there is room.
    fn place(&mut self, map: u64, key: &[u8], insert: bool) -> Option<usize> {
        let (_, value_bytes, most) = self.shapes[&map];
        if let Some(place) = self.places.get(&(map, key.to_vec())) {
            return Some(*place);
        }
        let is_hash = map == TABLE || map == MAPS.starts as u64;
        let used = self.places.keys().filter(|(of, _)| *of == map).count();
        if is_hash && !insert || used >= most {
            return None;
        }
        let place = self.used;
        self.used += value_bytes.next_multiple_of(8);
        assert!(self.used <= MEMORY, "the memory is full");
        self.places.insert((map, key.to_vec()), place);
        Some(place)
    }

    fn key(&self, map: u64, key: u64) -> Vec<u8> {
        let (key_bytes, ..) = self.shapes[&map];
        // SAFETY: the program passes the address of a key on its stack, which is as long as the
        // keys of the map.
        unsafe { std::slice::from_raw_parts(key as *const u8, key_bytes) }.to_vec()
    }
}

fn look_up(map: u64, key: u64, _: u64, _: u64, _: u64) -> u64 {
    STATE.with_borrow_mut(|state| {
        let key = state.key(map, key);
        if map == MAPS.tables as u64 {
            let is_there = key[..] == [0; 4] || key[..] == [1, 0, 0, 0];
            return if is_there { TABLE } else { 0 };
        }
        state.place(map, &key, false).map_or(0, |place| state.base + place as u64)
    })
}

fn update(map: u64, key: u64, value: u64, _: u64, _: u64) -> u64 {
    STATE.with_borrow_mut(|state| {
        let key = state.key(map, key);
        let Some(place) = state.place(map, &key, true) else { return (-7i64).cast_unsigned() };
        let (_, bytes, _) = state.shapes[&map];
        // SAFETY: the program passes the address of a value on its stack; the place is in the
        // memory, whose address is `base` while a program runs.
        unsafe {
            std::ptr::copy_nonoverlapping(
                value as *const u8,
                (state.base + place as u64) as *mut u8,
                bytes,
            );
        }
        0
    })
}

fn name_task(to: u64, bytes: u64, _: u64, _: u64, _: u64) -> u64 {
    assert_eq!(bytes as usize, COMM.len());
    // SAFETY: the program passes the address of 16 bytes on its stack.
    unsafe { std::ptr::copy_nonoverlapping(COMM.as_ptr(), to as *mut u8, COMM.len()) };
    0
}

fn read(to: u64, bytes: u64, from: u64, _: u64, _: u64) -> u64 {
    // SAFETY: the program passes the address of as many bytes on its stack, and that of an array in
    // the record.
    unsafe { std::ptr::copy(from as *const u8, to as *mut u8, bytes as usize) };
    0
}

fn read_text(to: u64, bytes: u64, from: u64, _: u64, _: u64) -> u64 {
    let (mut at, last) = (0, bytes as usize - 1);
    // SAFETY: the program passes the address of as many bytes on its stack, and that of a text in
    // the record, which ends with a NUL.
    unsafe {
        let (to, from) = (to as *mut u8, from as *const u8);
        while at < last && *from.add(at) != 0 {
            *to.add(at) = *from.add(at);
            at += 1;
        }
        *to.add(at) = 0;
    }
    at as u64 + 1
}

fn write_record(context: u64, map: u64, flags: u64, data: u64, bytes: u64) -> u64 {
    STATE.with_borrow_mut(|state| {
        let arguments = (context, map, flags);
        assert_eq!(arguments, (state.base, MAPS.records as u64, u32::MAX.into()), "R1 to R3");
        if state.refusal == 0 {
            // SAFETY: the program passes the address of a record on its stack, and its size.
            let bytes = unsafe { std::slice::from_raw_parts(data as *const u8, bytes as usize) };
            state.written.push(bytes.to_vec());
        }
        state.refusal.cast_unsigned()
    })
}

fn delete(map: u64, key: u64, _: u64, _: u64, _: u64) -> u64 {
    STATE.with_borrow_mut(|state| {
        let key = state.key(map, key);
        match state.places.remove(&(map, key)) {
            Some(_) => 0,
            None => (-2i64).cast_unsigned(),
        }
    })
}
