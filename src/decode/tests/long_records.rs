//! Records that the kernel makes longer than their contents.

use super::encode;
use super::records::{all, trailers};
use crate::decode::record::{Header, parse};
use crate::decode::sample::RecordLayout;
use perf_event_open_sys::bindings as abi;
use proptest::prelude::*;

proptest! {
    #[test]
    fn old_bytes_that_the_kernel_leaves_behind_a_trailer_are_ignored(
        case in trailers(),
        old in prop::collection::vec(any::<u64>(), 1..12),
    ) {
        let (shape, trailer) = case;
        let layout = RecordLayout::new(shape);
        let kinds =
            [abi::PERF_RECORD_KSYMBOL, abi::PERF_RECORD_BPF_EVENT, abi::PERF_RECORD_TEXT_POKE];
        for (bytes, record) in all(&shape, trailer) {
            let kind = Header::read(&bytes).expect("a header").kind;
            if trailer.is_none() || !kinds.contains(&kind) {
                continue;
            }
            let fields: Vec<u8> = bytes[Header::SIZE..]
                .iter()
                .copied()
                .chain(old.iter().flat_map(|word| word.to_ne_bytes()))
                .collect();
            let long = encode::record(kind, 0, &fields);
            prop_assert_eq!(parse(&long, &layout), Ok(record));
            prop_assert_eq!(layout.trailer(&long), trailer);
            prop_assert_eq!(layout.time(&long), layout.time(&bytes));
        }
    }
}
