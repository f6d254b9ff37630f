//! Writes samples and records as the kernel does, to be read back.

use crate::decode::sample::{Shape, Trailer};
use perf_event_open_sys::bindings as abi;

/// Everything that a sample may hold.
#[derive(Clone, Debug)]
pub(super) struct Values {
    pub(super) id: u64,
    pub(super) ip: u64,
    pub(super) pid: u32,
    pub(super) tid: u32,
    pub(super) time: u64,
    pub(super) addr: u64,
    pub(super) stream_id: u64,
    pub(super) cpu: u32,
    pub(super) period: u64,
    pub(super) read: ReadValues,
    pub(super) callchain: Vec<u64>,
    /// A multiple of 8 and 4 bytes, as the kernel pads it.
    pub(super) raw: Vec<u8>,
    pub(super) hw_index: u64,
    /// from, to, flags, counter
    pub(super) branches: Vec<[u64; 4]>,
    pub(super) regs_user: Option<Vec<u64>>,
    pub(super) stack_user: Vec<u8>,
    pub(super) stack_user_used: u64,
    pub(super) weight: u64,
    pub(super) data_src: u64,
    pub(super) transaction: u64,
    pub(super) regs_intr: Option<Vec<u64>>,
    pub(super) phys_addr: u64,
    pub(super) cgroup: u64,
    pub(super) data_page_size: u64,
    pub(super) code_page_size: u64,
    pub(super) aux: Vec<u8>,
}

#[derive(Clone, Debug)]
pub(super) struct ReadValues {
    pub(super) time_enabled: u64,
    pub(super) time_running: u64,
    /// value, id, lost; at least one
    pub(super) counts: Vec<[u64; 3]>,
}

/// Bytes under construction.
#[derive(Default)]
pub(super) struct Bytes(pub(super) Vec<u8>);

impl Bytes {
    pub(super) fn u16(&mut self, value: u16) -> &mut Bytes {
        self.0.extend(value.to_ne_bytes());
        self
    }

    pub(super) fn u32(&mut self, value: u32) -> &mut Bytes {
        self.0.extend(value.to_ne_bytes());
        self
    }

    pub(super) fn u64(&mut self, value: u64) -> &mut Bytes {
        self.0.extend(value.to_ne_bytes());
        self
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> &mut Bytes {
        self.0.extend(bytes);
        self
    }

    /// Text, its NUL, and zeros up to a whole word.
    pub(super) fn text(&mut self, text: &[u8]) -> &mut Bytes {
        self.0.extend(text);
        self.0.push(0);
        while !self.0.len().is_multiple_of(8) {
            self.0.push(0);
        }
        self
    }

    fn words(&mut self, words: &[u64]) -> &mut Bytes {
        words.iter().fold(self, |bytes, word| bytes.u64(*word))
    }
}

/// A whole record from its fields; the header's size is theirs.
pub(super) fn record(kind: u32, misc: u32, fields: &[u8]) -> Vec<u8> {
    let mut bytes = Bytes::default();
    bytes.u32(kind).u16(misc as u16).u16((8 + fields.len()) as u16).bytes(fields);
    bytes.0
}

/// What `sample_id_all` puts behind the fields of a record that is no sample.
pub(super) fn trailer(bytes: &mut Bytes, shape: &Shape, trailer: &Trailer) {
    if !shape.sample_id_all {
        return;
    }
    let asked = |bit: u32| shape.sample_type & u64::from(bit) != 0;
    if asked(abi::PERF_SAMPLE_TID) {
        bytes.u32(trailer.pid).u32(trailer.tid);
    }
    if asked(abi::PERF_SAMPLE_TIME) {
        bytes.u64(trailer.time);
    }
    if asked(abi::PERF_SAMPLE_ID) {
        bytes.u64(trailer.id);
    }
    if asked(abi::PERF_SAMPLE_STREAM_ID) {
        bytes.u64(trailer.stream_id);
    }
    if asked(abi::PERF_SAMPLE_CPU) {
        bytes.u32(trailer.cpu).u32(0);
    }
    if asked(abi::PERF_SAMPLE_IDENTIFIER) {
        bytes.u64(trailer.id);
    }
}

/// `struct read_format`.
pub(super) fn read(bytes: &mut Bytes, read_format: u64, values: &ReadValues) {
    let asked = |bit: u32| read_format & u64::from(bit) != 0;
    let times = |bytes: &mut Bytes| {
        if asked(abi::PERF_FORMAT_TOTAL_TIME_ENABLED) {
            bytes.u64(values.time_enabled);
        }
        if asked(abi::PERF_FORMAT_TOTAL_TIME_RUNNING) {
            bytes.u64(values.time_running);
        }
    };
    let id_and_lost = |bytes: &mut Bytes, id: u64, lost: u64| {
        if asked(abi::PERF_FORMAT_ID) {
            bytes.u64(id);
        }
        if asked(abi::PERF_FORMAT_LOST) {
            bytes.u64(lost);
        }
    };
    if asked(abi::PERF_FORMAT_GROUP) {
        bytes.u64(values.counts.len() as u64);
        times(bytes);
        for [value, id, lost] in &values.counts {
            bytes.u64(*value);
            id_and_lost(bytes, *id, *lost);
        }
    } else {
        let [value, id, lost] = values.counts[0];
        bytes.u64(value);
        times(bytes);
        id_and_lost(bytes, id, lost);
    }
}

/// A sample behind its header.
pub(super) fn sample(shape: &Shape, values: &Values) -> Vec<u8> {
    let asked = |bit: u32| shape.sample_type & u64::from(bit) != 0;
    let branches = |bit: u32| shape.branch_sample_type & u64::from(bit) != 0;
    let mut bytes = Bytes::default();
    let b = &mut bytes;
    let one = |b: &mut Bytes, bits: u32, value: u64| {
        if asked(bits) {
            b.u64(value);
        }
    };
    one(b, abi::PERF_SAMPLE_IDENTIFIER, values.id);
    one(b, abi::PERF_SAMPLE_IP, values.ip);
    if asked(abi::PERF_SAMPLE_TID) {
        b.u32(values.pid).u32(values.tid);
    }
    one(b, abi::PERF_SAMPLE_TIME, values.time);
    one(b, abi::PERF_SAMPLE_ADDR, values.addr);
    one(b, abi::PERF_SAMPLE_ID, values.id);
    one(b, abi::PERF_SAMPLE_STREAM_ID, values.stream_id);
    if asked(abi::PERF_SAMPLE_CPU) {
        b.u32(values.cpu).u32(0);
    }
    one(b, abi::PERF_SAMPLE_PERIOD, values.period);
    if asked(abi::PERF_SAMPLE_READ) {
        read(b, shape.read_format, &values.read);
    }
    if asked(abi::PERF_SAMPLE_CALLCHAIN) {
        b.u64(values.callchain.len() as u64).words(&values.callchain);
    }
    if asked(abi::PERF_SAMPLE_RAW) {
        b.u32(values.raw.len() as u32).bytes(&values.raw);
    }
    if asked(abi::PERF_SAMPLE_BRANCH_STACK) {
        b.u64(values.branches.len() as u64);
        if branches(abi::PERF_SAMPLE_BRANCH_HW_INDEX) {
            b.u64(values.hw_index);
        }
        for branch in &values.branches {
            b.words(&branch[..3]);
        }
        if branches(abi::PERF_SAMPLE_BRANCH_COUNTERS) {
            for branch in &values.branches {
                b.u64(branch[3]);
            }
        }
    }
    let registers = |b: &mut Bytes, bit: u32, registers: &Option<Vec<u64>>| {
        if !asked(bit) {
            return;
        }
        match registers {
            Some(values) => b.u64(u64::from(abi::PERF_SAMPLE_REGS_ABI_64)).words(values),
            None => b.u64(u64::from(abi::PERF_SAMPLE_REGS_ABI_NONE)),
        };
    };
    registers(b, abi::PERF_SAMPLE_REGS_USER, &values.regs_user);
    if asked(abi::PERF_SAMPLE_STACK_USER) {
        b.u64(values.stack_user.len() as u64).bytes(&values.stack_user);
        if !values.stack_user.is_empty() {
            b.u64(values.stack_user_used);
        }
    }
    one(b, abi::PERF_SAMPLE_WEIGHT | abi::PERF_SAMPLE_WEIGHT_STRUCT, values.weight);
    one(b, abi::PERF_SAMPLE_DATA_SRC, values.data_src);
    one(b, abi::PERF_SAMPLE_TRANSACTION, values.transaction);
    registers(b, abi::PERF_SAMPLE_REGS_INTR, &values.regs_intr);
    one(b, abi::PERF_SAMPLE_PHYS_ADDR, values.phys_addr);
    one(b, abi::PERF_SAMPLE_CGROUP, values.cgroup);
    one(b, abi::PERF_SAMPLE_DATA_PAGE_SIZE, values.data_page_size);
    one(b, abi::PERF_SAMPLE_CODE_PAGE_SIZE, values.code_page_size);
    if asked(abi::PERF_SAMPLE_AUX) {
        b.u64(values.aux.len() as u64).bytes(&values.aux);
    }
    bytes.0
}
