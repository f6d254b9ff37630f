//! Tests with records written by a kernel (6.18, x86-64): a page-fault event with every bit of
//! `sample_type` that the machine supports, in process 29920, which touched a page, renamed itself,
//! mapped a page and forked.

use crate::decode::read::CounterValue;
use crate::decode::record::{Record, parse};
use crate::decode::record_attrs::RecordAttrs;
use crate::decode::sample::{RecordLayout, Trailer};
use crate::decode::side_band::CpuMode;
use crate::decode::side_band::{Comm, FileIdentity, Mmap2, Switch, TaskRecord};
use perf_event_open_sys::bindings as abi;

const PID: u32 = 29920;
const ID: u64 = 7500;
/// The page that was touched.
const PAGE: u64 = 0x7f18_3ff9_5000;

const SAMPLE: [u64; 46] = [
    0x0170_0002_0000_0009,
    0x1d4c,
    0x55fc_af48_64e8,
    0x0000_74e0_0000_74e0,
    0x02cb_65a2_e157,
    0x7f18_3ff9_5000,
    0x1d4c,
    0x1d4c,
    0,
    1,
    1,
    0x5412,
    0x5412,
    0x1d4c,
    0,
    3,
    0xffff_ffff_ffff_fe00,
    0x55fc_af48_64e8,
    0x7f18_3ffc_124a,
    4,
    2,
    0x7f18_3ff9_5000,
    0x7fff_183b_1d68,
    0x7f18_4009_7d6b,
    0,
    0x2400,
    3,
    0x7fff_183b_1c50,
    0x7fff_183b_1a40,
    0x55fc_af48_64e8,
    16,
    0x7fff_183b_1d68,
    0x0002_0000_0000,
    16,
    0,
    0x001e_0508_0021,
    0,
    2,
    0x7f18_3ff9_5000,
    0x7fff_183b_1d68,
    0x55fc_af48_64e8,
    0,
    1,
    0,
    0x1000,
    0,
];

fn layout() -> RecordLayout {
    let every = abi::PERF_SAMPLE_MAX - 1;
    let refused = abi::PERF_SAMPLE_BRANCH_STACK | abi::PERF_SAMPLE_WEIGHT_STRUCT;
    RecordLayout::new(RecordAttrs {
        sample_type: u64::from(every & !refused),
        read_format: u64::from(abi::PERF_FORMAT_MAX - 1 - abi::PERF_FORMAT_GROUP),
        branch_sample_type: 0,
        sample_regs_user: 0x1ff,
        sample_regs_intr: 0x103,
        sample_id_all: true,
        fixed_period: 0,
    })
}

fn trailer(time: u64) -> Option<Trailer> {
    Some(Trailer { pid: PID, tid: PID, time, id: ID, stream_id: ID, cpu: 0 })
}

/// Returns the bytes of a record, as written by the little-endian machine.
fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
#[cfg(target_endian = "little")]
fn a_sample_with_all_fields_is_read() {
    let (bytes, layout) = (bytes(&SAMPLE), layout());
    let Ok(Record::Sample { cpumode, exact_ip, sample }) = parse(&bytes, &layout) else {
        panic!("no sample");
    };
    assert_eq!((cpumode, exact_ip), (CpuMode::User, false));
    assert_eq!((sample.id, sample.stream_id, sample.pid, sample.tid), (ID, ID, PID, PID));
    assert_eq!((sample.ip, sample.addr, sample.cpu), (0x55fc_af48_64e8, PAGE, 0));
    assert_eq!((sample.time, sample.period), (0x02cb_65a2_e157, 1));
    assert_eq!(
        (sample.read.time_enabled(), sample.read.time_running()),
        (Some(21522), Some(21522))
    );
    let count = CounterValue { value: 1, id: Some(ID), lost: Some(0) };
    assert_eq!(sample.read.counts().collect::<Vec<_>>(), [count]);
    let chain = [abi::PERF_CONTEXT_USER, sample.ip, 0x7f18_3ffc_124a];
    assert_eq!(sample.callchain.iter().collect::<Vec<_>>(), chain);
    assert_eq!(sample.raw, [0; 4]);

    let rest = layout.rest(&sample).expect("a whole sample");
    assert_eq!((rest.regs_user.abi, rest.regs_user.values.len()), (2, 9));
    // Registers of x86-64: 0 is ax, which contained the page, and 8 is ip.
    assert_eq!((rest.regs_user.get(0), rest.regs_user.get(8)), (Some(PAGE), Some(sample.ip)));
    assert_eq!((rest.regs_intr.get(0), rest.regs_intr.get(8)), (Some(PAGE), Some(sample.ip)));
    assert_eq!((rest.stack_user.bytes.len(), rest.stack_user.used().len()), (16, 16));
    assert_eq!((rest.weight, rest.transaction, rest.phys_addr, rest.cgroup), (0, 0, 0, 1));
    assert_eq!((rest.data_page_size, rest.code_page_size), (0, 4096));
    assert!(rest.aux.is_empty());
}

#[test]
#[cfg(target_endian = "little")]
fn names_and_mappings_of_its_process_are_read() {
    let layout = layout();
    let comm = bytes(&[
        0x0050_0000_0000_0003,
        0x0000_74e0_0000_74e0,
        0x6d75_642d_656e_756c,
        0x70,
        0x0000_74e0_0000_74e0,
        0x02cb_65ab_241e,
        ID,
        ID,
        0,
        ID,
    ]);
    let trailer_of_comm = trailer(0x02cb_65ab_241e);
    assert_eq!(
        parse(&comm, &layout),
        Ok(Record::Comm(Comm {
            exec: false,
            pid: PID,
            tid: PID,
            comm: b"lune-dump",
            trailer: trailer_of_comm,
        }))
    );
    let mmap2 = bytes(&[
        0x0080_0002_0000_000a,
        0x0000_74e0_0000_74e0,
        0x7f18_3ff9_4000,
        0x1000,
        0x7f18_3ff9_4000,
        0,
        0,
        0,
        0x0000_0002_0000_0005,
        0x6e6f_6e61_2f2f,
        0x0000_74e0_0000_74e0,
        0x02cb_65ab_44e7,
        ID,
        ID,
        0,
        ID,
    ]);
    assert_eq!(
        parse(&mmap2, &layout),
        Ok(Record::Mmap2(Mmap2 {
            cpumode: CpuMode::User,
            data: false,
            pid: PID,
            tid: PID,
            addr: 0x7f18_3ff9_4000,
            len: 4096,
            pgoff: 0x7f18_3ff9_4000,
            file: FileIdentity::Inode { maj: 0, min: 0, ino: 0, ino_generation: 0 },
            prot: 5,
            flags: 2,
            filename: b"//anon",
            trailer: trailer(0x02cb_65ab_44e7),
        }))
    );
}

#[test]
#[cfg(target_endian = "little")]
fn forks_and_switches_of_its_process_are_read() {
    let layout = layout();
    let fork = bytes(&[
        0x0050_0000_0000_0007,
        0x0000_74e0_0000_74e1,
        0x0000_74e0_0000_74e1,
        0x02cb_65ac_f1bd,
        0x0000_74e0_0000_74e0,
        0x02cb_65ac_f09b,
        ID,
        ID,
        0,
        ID,
    ]);
    assert_eq!(
        parse(&fork, &layout),
        Ok(Record::Fork(TaskRecord {
            pid: PID + 1,
            ppid: PID,
            tid: PID + 1,
            ptid: PID,
            time: 0x02cb_65ac_f1bd,
            trailer: trailer(0x02cb_65ac_f09b),
        }))
    );
    let switch =
        bytes(&[0x0038_2000_0000_000e, 0x0000_74e0_0000_74e0, 0x02cb_65ae_4910, ID, ID, 0, ID]);
    assert_eq!(
        parse(&switch, &layout),
        Ok(Record::Switch(Switch {
            out: true,
            preempt: false,
            trailer: trailer(0x02cb_65ae_4910),
        }))
    );
}
