//! Encodes samples and records as the kernel does, for the decoder tests.

use crate::decode::record_attrs::RecordAttrs;
use crate::decode::sample::Trailer;
use perf_event_open_sys::bindings as abi;

/// All fields of a sample.
#[derive(Clone, Debug, Default)]
pub(crate) struct Values {
    pub(crate) id: u64,
    pub(crate) ip: u64,
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    pub(crate) time: u64,
    pub(crate) addr: u64,
    pub(crate) stream_id: u64,
    pub(crate) cpu: u32,
    pub(crate) period: u64,
    pub(crate) read: ReadValues,
    pub(crate) callchain: Vec<u64>,
    /// A multiple of 8 bytes plus 4, as the kernel pads it.
    pub(crate) raw: Vec<u8>,
    pub(crate) hw_index: u64,
    /// from, to, flags, counter
    pub(crate) branches: Vec<[u64; 4]>,
    pub(crate) regs_user: Option<Vec<u64>>,
    pub(crate) stack_user: Vec<u8>,
    pub(crate) stack_user_used: u64,
    pub(crate) weight: u64,
    pub(crate) data_src: u64,
    pub(crate) transaction: u64,
    pub(crate) regs_intr: Option<Vec<u64>>,
    pub(crate) phys_addr: u64,
    pub(crate) cgroup: u64,
    pub(crate) data_page_size: u64,
    pub(crate) code_page_size: u64,
    pub(crate) aux: Vec<u8>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ReadValues {
    pub(crate) time_enabled: u64,
    pub(crate) time_running: u64,
    /// value, id, lost; at least one
    pub(crate) counts: Vec<[u64; 3]>,
}

/// A buffer for encoding.
#[derive(Default)]
pub(crate) struct Bytes(pub(super) Vec<u8>);

impl Bytes {
    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn u16(&mut self, value: u16) -> &mut Bytes {
        self.0.extend(value.to_ne_bytes());
        self
    }

    pub(crate) fn u32(&mut self, value: u32) -> &mut Bytes {
        self.0.extend(value.to_ne_bytes());
        self
    }

    pub(crate) fn u64(&mut self, value: u64) -> &mut Bytes {
        self.0.extend(value.to_ne_bytes());
        self
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> &mut Bytes {
        self.0.extend(bytes);
        self
    }

    /// Appends text, its NUL, and zeros up to a whole word.
    pub(crate) fn text(&mut self, text: &[u8]) -> &mut Bytes {
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

/// Returns a whole record from its fields, with the size in the header.
pub(crate) fn record(kind: u32, misc: u32, fields: &[u8]) -> Vec<u8> {
    let mut bytes = Bytes::default();
    bytes.u32(kind).u16(misc as u16).u16((8 + fields.len()) as u16).bytes(fields);
    bytes.0
}

/// Appends the trailer that `sample_id_all` adds to records other than samples.
pub(crate) fn trailer(bytes: &mut Bytes, shape: &RecordAttrs, trailer: &Trailer) {
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
pub(crate) fn read(bytes: &mut Bytes, read_format: u64, values: &ReadValues) {
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

/// Returns a sample without its header.
pub(crate) fn sample(shape: &RecordAttrs, values: &Values) -> Vec<u8> {
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
