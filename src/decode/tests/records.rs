//! Tests of all kinds of records: encoded and decoded, truncated, and random bytes.

use super::encode::{self, Bytes, ReadValues};
use super::samples::{compare_read, shapes};
use crate::decode::cursor::Bad;
use crate::decode::record::{Header, Record, parse};
use crate::decode::record_attrs::RecordAttrs;
use crate::decode::sample::{RecordLayout, Trailer, identifier};
use crate::decode::side_band::{
    Aux, AuxOutputHwId, BpfEvent, Cgroup, Comm, CpuMode, FileIdentity, ItraceStart, KsymbolRecord,
    Lost, LostSamples, Mmap, Mmap2, Switch, SwitchCpuWide, TaskRecord, TextPoke, Throttle,
};
use perf_event_open_sys::bindings as abi;
use proptest::prelude::*;

const BUILD_ID: [u8; 20] = *b"0123456789abcdefghij";

/// Generates attributes, and a trailer in which only the fields that they select are not 0.
pub(super) fn trailers() -> impl Strategy<Value = (RecordAttrs, Option<Trailer>)> {
    (shapes(), any::<[u64; 6]>()).prop_map(|(shape, pool)| {
        let one = |bits: u32, value: u64| if shape.samples(bits) { value } else { 0 };
        let tid = |value: u64| one(abi::PERF_SAMPLE_TID, value) as u32;
        let trailer = Trailer {
            pid: tid(pool[0]),
            tid: tid(pool[1]),
            time: one(abi::PERF_SAMPLE_TIME, pool[2]),
            id: one(abi::PERF_SAMPLE_ID | abi::PERF_SAMPLE_IDENTIFIER, pool[3]),
            stream_id: one(abi::PERF_SAMPLE_STREAM_ID, pool[4]),
            cpu: one(abi::PERF_SAMPLE_CPU, pool[5]) as u32,
        };
        let bits = abi::PERF_SAMPLE_TID
            | abi::PERF_SAMPLE_TIME
            | abi::PERF_SAMPLE_ID
            | abi::PERF_SAMPLE_STREAM_ID
            | abi::PERF_SAMPLE_CPU
            | abi::PERF_SAMPLE_IDENTIFIER;
        (shape, (shape.sample_id_all && shape.samples(bits)).then_some(trailer))
    })
}

/// Returns a whole record from kind, misc, its own fields and its trailer.
fn whole(
    shape: &RecordAttrs,
    trailer: Option<Trailer>,
    kind: u32,
    misc: u32,
    fields: impl FnOnce(&mut Bytes),
) -> Vec<u8> {
    let mut bytes = Bytes::default();
    fields(&mut bytes);
    encode::trailer(&mut bytes, shape, &trailer.unwrap_or_default());
    encode::record(kind, misc, &bytes.0)
}

pub(super) type Encoded = (Vec<u8>, Record<'static>);

/// Returns one record of each kind with encodable fields, with its bytes.
pub(super) fn all(shape: &RecordAttrs, trailer: Option<Trailer>) -> Vec<Encoded> {
    let mut all = mappings(shape, trailer);
    all.extend(records_of_tasks(shape, trailer));
    all.extend(records_of_events(shape, trailer));
    all.extend(records_of_the_kernel(shape, trailer));
    all
}

fn mappings(shape: &RecordAttrs, trailer: Option<Trailer>) -> Vec<Encoded> {
    let put = |kind, misc, fields: &dyn Fn(&mut Bytes)| whole(shape, trailer, kind, misc, fields);
    let map = |b: &mut Bytes| {
        b.u32(1).u32(2).u64(0x1000).u64(0x2000).u64(3);
    };
    let inode = FileIdentity::Inode { maj: 8, min: 9, ino: 10, ino_generation: 11 };
    let mmap2 = Mmap2 {
        cpumode: CpuMode::User,
        data: true,
        pid: 1,
        tid: 2,
        addr: 0x1000,
        len: 0x2000,
        pgoff: 3,
        file: inode,
        prot: 5,
        flags: 2,
        filename: b"/bin/true",
        trailer,
    };
    let user = abi::PERF_RECORD_MISC_USER;
    vec![
        (
            put(abi::PERF_RECORD_MMAP, abi::PERF_RECORD_MISC_KERNEL, &|b| {
                map(b);
                b.text(b"[kernel]");
            }),
            Record::Mmap(Mmap {
                cpumode: CpuMode::Kernel,
                data: false,
                pid: 1,
                tid: 2,
                addr: 0x1000,
                len: 0x2000,
                pgoff: 3,
                filename: b"[kernel]",
                trailer,
            }),
        ),
        (
            put(abi::PERF_RECORD_MMAP2, user | abi::PERF_RECORD_MISC_MMAP_DATA, &|b| {
                map(b);
                b.u32(8).u32(9).u64(10).u64(11).u32(5).u32(2).text(b"/bin/true");
            }),
            Record::Mmap2(mmap2),
        ),
        (
            put(abi::PERF_RECORD_MMAP2, user | abi::PERF_RECORD_MISC_MMAP_BUILD_ID, &|b| {
                map(b);
                b.bytes(&[18, 0, 0, 0]).bytes(&BUILD_ID).u32(5).u32(2).text(b"/bin/true");
            }),
            Record::Mmap2(Mmap2 {
                data: false,
                file: FileIdentity::BuildId(b"0123456789abcdefgh"),
                ..mmap2
            }),
        ),
    ]
}

fn records_of_tasks(shape: &RecordAttrs, trailer: Option<Trailer>) -> Vec<Encoded> {
    let put = |kind, misc, fields: &dyn Fn(&mut Bytes)| whole(shape, trailer, kind, misc, fields);
    let task = TaskRecord { pid: 1, ppid: 2, tid: 3, ptid: 4, time: 5, trailer };
    let put_task = |b: &mut Bytes| {
        b.u32(1).u32(2).u32(3).u32(4).u64(5);
    };
    vec![
        (
            put(abi::PERF_RECORD_COMM, abi::PERF_RECORD_MISC_COMM_EXEC, &|b| {
                b.u32(1).u32(2).text(b"lune");
            }),
            Record::Comm(Comm { exec: true, pid: 1, tid: 2, comm: b"lune", trailer }),
        ),
        (put(abi::PERF_RECORD_EXIT, 0, &put_task), Record::Exit(task)),
        (put(abi::PERF_RECORD_FORK, 0, &put_task), Record::Fork(task)),
        (
            put(abi::PERF_RECORD_ITRACE_START, 0, &|b| {
                b.u32(1).u32(2);
            }),
            Record::ItraceStart(ItraceStart { pid: 1, tid: 2, trailer }),
        ),
        (
            put(abi::PERF_RECORD_SWITCH, abi::PERF_RECORD_MISC_SWITCH_OUT, &|_| {}),
            Record::Switch(Switch { out: true, preempt: false, trailer }),
        ),
        (
            put(
                abi::PERF_RECORD_SWITCH_CPU_WIDE,
                abi::PERF_RECORD_MISC_SWITCH_OUT | abi::PERF_RECORD_MISC_SWITCH_OUT_PREEMPT,
                &|b| {
                    b.u32(1).u32(2);
                },
            ),
            Record::SwitchCpuWide(SwitchCpuWide {
                out: true,
                preempt: true,
                next_prev_pid: 1,
                next_prev_tid: 2,
                trailer,
            }),
        ),
    ]
}

fn records_of_events(shape: &RecordAttrs, trailer: Option<Trailer>) -> Vec<Encoded> {
    let put = |kind, misc, fields: &dyn Fn(&mut Bytes)| whole(shape, trailer, kind, misc, fields);
    let throttle = Throttle { time: 1, id: 2, stream_id: 3, trailer };
    let put_throttle = |b: &mut Bytes| {
        b.u64(1).u64(2).u64(3);
    };
    vec![
        (
            put(abi::PERF_RECORD_LOST, 0, &|b| {
                b.u64(6).u64(7);
            }),
            Record::Lost(Lost { id: 6, lost: 7, trailer }),
        ),
        (put(abi::PERF_RECORD_THROTTLE, 0, &put_throttle), Record::Throttle(throttle)),
        (put(abi::PERF_RECORD_UNTHROTTLE, 0, &put_throttle), Record::Unthrottle(throttle)),
        (
            put(abi::PERF_RECORD_AUX, 0, &|b| {
                b.u64(1).u64(2).u64(u64::from(abi::PERF_AUX_FLAG_TRUNCATED));
            }),
            Record::Aux(Aux { aux_offset: 1, aux_size: 2, flags: 1, trailer }),
        ),
        (
            put(abi::PERF_RECORD_LOST_SAMPLES, 0, &|b| {
                b.u64(7);
            }),
            Record::LostSamples(LostSamples { lost: 7, trailer }),
        ),
        (
            put(abi::PERF_RECORD_AUX_OUTPUT_HW_ID, 0, &|b| {
                b.u64(3);
            }),
            Record::AuxOutputHwId(AuxOutputHwId { hw_id: 3, trailer }),
        ),
    ]
}

fn records_of_the_kernel(shape: &RecordAttrs, trailer: Option<Trailer>) -> Vec<Encoded> {
    let put = |kind, misc, fields: &dyn Fn(&mut Bytes)| whole(shape, trailer, kind, misc, fields);
    vec![
        (
            put(abi::PERF_RECORD_KSYMBOL, 0, &|b| {
                b.u64(0xffff_0000).u32(64).u16(1).u16(1).text(b"bpf_prog_6deef7357e7b4530");
            }),
            Record::Ksymbol(KsymbolRecord {
                addr: 0xffff_0000,
                len: 64,
                ksym_type: 1,
                unregister: true,
                name: b"bpf_prog_6deef7357e7b4530",
                trailer,
            }),
        ),
        (
            put(abi::PERF_RECORD_BPF_EVENT, 0, &|b| {
                b.u16(1).u16(0).u32(42).bytes(b"TAGTAGTA");
            }),
            Record::BpfEvent(BpfEvent { kind: 1, flags: 0, id: 42, tag: *b"TAGTAGTA", trailer }),
        ),
        (
            put(abi::PERF_RECORD_CGROUP, 0, &|b| {
                b.u64(9).text(b"/system.slice");
            }),
            Record::Cgroup(Cgroup { id: 9, path: b"/system.slice", trailer }),
        ),
        (
            put(abi::PERF_RECORD_TEXT_POKE, 0, &|b| {
                b.u64(0xffff_0000)
                    .u16(2)
                    .u16(5)
                    .bytes(b"\x66\x90\xe9\x01\x02\x03\x04")
                    .bytes(&[0; 5]);
            }),
            Record::TextPoke(TextPoke {
                addr: 0xffff_0000,
                old: b"\x66\x90",
                new: b"\xe9\x01\x02\x03\x04",
                trailer,
            }),
        ),
        (put(99, 0, &|_| {}), Record::Unknown(99)),
    ]
}

proptest! {
    #[test]
    fn every_kind_of_record_round_trips_with_its_trailer(case in trailers()) {
        let (shape, trailer) = case;
        let layout = RecordLayout::new(shape);
        for (bytes, record) in all(&shape, trailer) {
            prop_assert_eq!(parse(&bytes, &layout), Ok(record));
            prop_assert_eq!(layout.trailer(&bytes), trailer);
            let time = trailer.filter(|_| shape.samples(abi::PERF_SAMPLE_TIME)).map(|it| it.time);
            prop_assert_eq!(layout.time(&bytes), time);
            if let (Some(trailer), true) = (trailer, shape.samples(abi::PERF_SAMPLE_IDENTIFIER)) {
                prop_assert_eq!(identifier(&bytes), Some(trailer.id));
            }
        }
    }

    #[test]
    fn a_list_in_a_record_round_trips(
        case in trailers(),
        ips in prop::collection::vec(any::<u64>(), 0..20),
        links in prop::collection::vec(any::<(u64, u64)>(), 0..9),
        counts in prop::collection::vec(any::<[u64; 3]>(), 1..4),
    ) {
        let (shape, trailer) = case;
        let layout = RecordLayout::new(shape);
        let deferred = whole(&shape, trailer, abi::PERF_RECORD_CALLCHAIN_DEFERRED, 0, |b| {
            b.u64(77).u64(ips.len() as u64);
            ips.iter().for_each(|ip| { b.u64(*ip); });
        });
        let Ok(Record::CallchainDeferred(deferred)) = parse(&deferred, &layout) else {
            return Err(TestCaseError::fail("no deferred call chain"));
        };
        prop_assert_eq!((deferred.cookie, deferred.trailer), (77, trailer));
        prop_assert_eq!(deferred.ips.iter().collect::<Vec<_>>(), ips);

        let namespaces = whole(&shape, trailer, abi::PERF_RECORD_NAMESPACES, 0, |b| {
            b.u32(1).u32(2).u64(links.len() as u64);
            links.iter().for_each(|(dev, inode)| { b.u64(*dev).u64(*inode); });
        });
        let Ok(Record::Namespaces(namespaces)) = parse(&namespaces, &layout) else {
            return Err(TestCaseError::fail("no namespaces"));
        };
        let found: Vec<_> = (0..).map_while(|index| namespaces.get(index)).collect();
        prop_assert_eq!((namespaces.pid, namespaces.tid, found), (1, 2, links));

        let values = ReadValues { time_enabled: 5, time_running: 4, counts };
        let read = whole(&shape, trailer, abi::PERF_RECORD_READ, 0, |b| {
            b.u32(1).u32(2);
            encode::read(b, shape.read_format, &values);
        });
        let Ok(Record::Read(read)) = parse(&read, &layout) else {
            return Err(TestCaseError::fail("no values"));
        };
        prop_assert_eq!((read.pid, read.tid, read.trailer), (1, 2, trailer));
        compare_read(&read.values, shape.read_format, &values)?;
    }

    #[test]
    fn a_truncated_record_never_panics(case in trailers()) {
        let (shape, trailer) = case;
        let layout = RecordLayout::new(shape);
        for (bytes, _) in all(&shape, trailer) {
            for end in 0..bytes.len() {
                let short = parse(&bytes[..end], &layout);
                let bad = if end < Header::SIZE { Bad::Header } else { Bad::Size };
                prop_assert_eq!(short, Err(bad));
                // The same, with the new size in the header.
                let mut resized = bytes[..end].to_vec();
                if let Some(size) = resized.get_mut(6..8) {
                    size.copy_from_slice(&(end as u16).to_ne_bytes());
                }
                let _ = parse(&resized, &layout);
            }
        }
    }

    #[test]
    fn any_bytes_are_a_record_or_an_error(
        shape in shapes(),
        kind in 0u32..26,
        misc in any::<u16>(),
        words in prop::collection::vec(prop_oneof![0u64..40, any::<u64>()], 0..60),
    ) {
        let fields: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let bytes = encode::record(kind, u32::from(misc), &fields);
        let layout = RecordLayout::new(shape);
        let _ = parse(&bytes, &layout);
        let _ = (layout.time(&bytes), layout.trailer(&bytes), identifier(&bytes));
    }

    #[test]
    fn random_bytes_are_a_record_or_an_error(
        shape in shapes(),
        bytes in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let layout = RecordLayout::new(shape);
        let _ = parse(&bytes, &layout);
        let _ = (layout.time(&bytes), layout.trailer(&bytes), identifier(&bytes));
    }
}

#[test]
fn every_kind_of_the_abi_is_known() {
    assert_eq!(abi::PERF_RECORD_MAX, 23);
    let layout = RecordLayout::new(RecordAttrs::default());
    for kind in 1..abi::PERF_RECORD_MAX {
        let empty = encode::record(kind, 0, &[0; 64]);
        assert!(!matches!(parse(&empty, &layout), Ok(Record::Unknown(_)) | Err(_)), "kind {kind}");
    }
}

#[test]
fn a_record_without_its_fields_is_reported_with_the_missing_part() {
    let shape = RecordAttrs {
        sample_type: u64::from(abi::PERF_SAMPLE_TID | abi::PERF_SAMPLE_TIME),
        sample_id_all: true,
        ..RecordAttrs::default()
    };
    let layout = RecordLayout::new(shape);
    let comm = |fields: &[u8]| encode::record(abi::PERF_RECORD_COMM, 0, fields);
    assert_eq!(parse(&comm(&[0; 8]), &layout), Err(Bad::Trailer));
    assert_eq!(parse(&comm(&[0; 20]), &layout), Err(Bad::Body));
    assert_eq!(layout.trailer(&comm(&[0; 8])), None);
}

#[test]
fn a_build_id_longer_than_its_field_is_refused() {
    let mut fields = Bytes::default();
    fields.u32(1).u32(2).u64(0).u64(0).u64(0).bytes(&[21, 0, 0, 0]).bytes(&BUILD_ID).u32(0).u32(0);
    let misc = abi::PERF_RECORD_MISC_MMAP_BUILD_ID;
    let bytes = encode::record(abi::PERF_RECORD_MMAP2, misc, &fields.0);
    assert_eq!(parse(&bytes, &RecordLayout::new(RecordAttrs::default())), Err(Bad::Body));
}

#[test]
fn a_sample_has_the_cpu_mode_of_its_instruction_pointer() {
    let misc = abi::PERF_RECORD_MISC_GUEST_USER | abi::PERF_RECORD_MISC_EXACT_IP;
    let bytes = encode::record(abi::PERF_RECORD_SAMPLE, misc, &[]);
    let record = parse(&bytes, &RecordLayout::new(RecordAttrs::default()));
    assert!(matches!(
        record,
        Ok(Record::Sample { cpumode: CpuMode::GuestUser, exact_ip: true, .. })
    ));
}
