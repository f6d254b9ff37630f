//! Records as callbacks get them, from bytes in the kernel's layout.

use super::*;
use crate::decode::record;
use crate::decode::record_attrs::RecordAttrs;
use crate::decode::sample::{RecordLayout, Trailer};
use crate::decode::tests::encode::{self, Bytes};

fn shape() -> RecordAttrs {
    RecordAttrs {
        sample_type: (abi::PERF_SAMPLE_TID | abi::PERF_SAMPLE_TIME).into(),
        sample_id_all: true,
        ..RecordAttrs::default()
    }
}

/// Returns kind, thread and fields of a record with these fields, written by task 7/8.
fn read(kind: u32, misc: u32, fill: impl FnOnce(&mut Bytes)) -> String {
    let mut bytes = Bytes::default();
    fill(&mut bytes);
    encode::trailer(
        &mut bytes,
        &shape(),
        &Trailer { pid: 7, tid: 8, time: 9, ..Trailer::default() },
    );
    let whole = encode::record(kind, misc, bytes.as_slice());
    let layout = RecordLayout::new(shape());
    let parsed = record::parse(&whole, &layout).unwrap();
    let one = SideRecord::of(&parsed, |id| (id == 42).then_some("cpu-clock")).unwrap();
    let fields: Vec<String> = one
        .fields()
        .map(|(name, value)| match value {
            SideValue::Number(n) => format!("{name}={n}"),
            SideValue::Task(n) => format!("{name}={n}"),
            SideValue::Flag(on) => format!("{name}={on}"),
            SideValue::Text(text) => format!("{name}={}", String::from_utf8_lossy(text)),
            SideValue::Hex(bytes) => format!("{name}={bytes:02x?}"),
        })
        .collect();
    format!("{:?} {:?} {}", one.kind, one.tid(), fields.join(" "))
}

#[test]
fn each_kind_has_its_fields_by_name() {
    let out = abi::PERF_RECORD_MISC_SWITCH_OUT;
    assert_eq!(
        read(abi::PERF_RECORD_SWITCH_CPU_WIDE, out, |b| {
            b.u32(20).u32(21);
        }),
        "Switch Some(8) pid=7 tid=8 out=true preempted=false other_pid=20 other_tid=21"
    );
    assert_eq!(
        read(abi::PERF_RECORD_SWITCH, 0, |_| {}),
        "Switch Some(8) pid=7 tid=8 out=false preempted=false"
    );
    assert_eq!(
        read(abi::PERF_RECORD_NAMESPACES, 0, |b| {
            b.u32(1).u32(2).u64(2).u64(5).u64(100).u64(5).u64(101);
        }),
        "Namespaces Some(2) pid=1 tid=2 net_ns=100 uts_ns=101"
    );
    assert_eq!(
        read(abi::PERF_RECORD_CGROUP, 0, |b| {
            b.u64(33).text(b"/a/b");
        }),
        "Cgroup None id=33 path=/a/b"
    );
    assert_eq!(
        read(abi::PERF_RECORD_KSYMBOL, 0, |b| {
            b.u64(64).u32(16).u16(1).u16(1).text(b"bpf_prog");
        }),
        "Ksymbol None address=64 length=16 kind=bpf name=bpf_prog removed=true"
    );
    assert_eq!(
        read(abi::PERF_RECORD_BPF_EVENT, 0, |b| {
            b.u16(1).u16(0).u32(12).bytes(&[1, 2, 3, 4, 5, 6, 7, 8]);
        }),
        "Bpf None id=12 kind=load tag=[01, 02, 03, 04, 05, 06, 07, 08]"
    );
    assert_eq!(
        read(abi::PERF_RECORD_THROTTLE, 0, |b| {
            b.u64(1).u64(42).u64(42);
        }),
        "Throttle None event=cpu-clock throttled=true"
    );
    assert_eq!(
        read(abi::PERF_RECORD_UNTHROTTLE, 0, |b| {
            b.u64(1).u64(43).u64(43);
        }),
        "Throttle None event= throttled=false"
    );
    assert_eq!(
        read(abi::PERF_RECORD_TEXT_POKE, 0, |b| {
            b.u64(64).u16(2).u16(2).bytes(b"abcd");
        }),
        "TextPoke None address=64 old=ab new=cd"
    );
}

#[test]
fn the_table_is_in_the_order_of_the_kinds() {
    for (index, one) in SIDE_RECORDS.iter().enumerate() {
        assert_eq!(one.kind as usize, index, "{}", one.callback);
        if let Some(field) = one.attr {
            assert!(crate::sys::attr::Attr::names().any(|name| name == field), "{field}");
        }
        let left_out = [SideKind::Switch, SideKind::Namespaces].contains(&one.kind);
        assert_eq!(SideKinds::AT_PROMPT.contains(one.kind), !left_out);
    }
}
