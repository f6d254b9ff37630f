//! Keys that are texts whose place differs between records.

use super::machine::Machine;
use super::{ID, field};
use perilune::bpf::count::CountedEvent;
use perilune::bpf::key::{KeyPart, KeyShape};
use perilune::bpf::pair::layout::PairLayout;
use perilune::bpf::pair::{PairFinish, PairPart, PairedEvent, RowPart};
use perilune::bpf::record_text::{RecordText, TextLocation, without_partial_character};

/// Offset of the text; its location is at 0.
const TEXT: usize = 16;
/// Bytes of the longest array.
const MOST: usize = 80;

/// Returns the key of a text in an array of `bytes` bytes, whose place counts from `from`. Behind
/// the array are other bytes.
fn key_of(kind: fn(TextLocation) -> RecordText, text: &[u8], bytes: usize, from: i16) -> Vec<u8> {
    let key = KeyPart::Text(kind(TextLocation { at: 0, from }));
    let layout =
        PairLayout { row: KeyShape::of(std::slice::from_ref(&key)), ..PairLayout::default() };
    let finish = PairFinish {
        value: Some(field(ID)),
        row: Some(vec![RowPart::Own(key)]),
        ..PairFinish::default()
    };
    let event = PairedEvent { event: CountedEvent::default(), part: PairPart::Finish(finish) };
    let machine = Machine::new(&layout, 1, 1);
    machine.use_table(0);
    let mut record = vec![b'?'; TEXT + MOST];
    let location = (bytes << 16 | TEXT) as u32 - from as u32;
    record[..4].copy_from_slice(&location.to_ne_bytes());
    record[8..16].copy_from_slice(&1_u64.to_ne_bytes());
    record[TEXT..TEXT + bytes].fill(0);
    record[TEXT..TEXT + text.len()].copy_from_slice(text);
    machine.run(&machine.load(&event), &record, 5, 1, 0);
    let keys = machine.maps(|maps| maps.table.keys().cloned().collect::<Vec<_>>());
    let [key] = &keys[..] else { panic!("{keys:?}") };
    key[1..].iter().flat_map(|word| word.to_ne_bytes()).collect()
}

#[test]
fn a_text_ends_with_its_array_or_at_a_nul() {
    let text: Vec<u8> = (0..MOST).map(|n| b'a' + n as u8 % 26).collect();
    for bytes in 0..=MOST {
        for length in 0..=bytes {
            let text = &text[..length];
            let from = if length % 2 == 0 { 0 } else { 4 };
            let key = key_of(RecordText::Long, text, bytes, from);
            let mut expected = text.to_vec();
            if length > 63 {
                expected.truncate(60);
                expected.extend("…".as_bytes());
            }
            expected.resize(64, 0);
            assert_eq!(key, expected, "{length} of {bytes} bytes");
        }
    }
    for (length, bytes) in [(0, 0), (0, 1), (4, 4), (4, 5), (4, 9), (15, 15), (15, 16), (15, 40)] {
        let mut expected = text[..length].to_vec();
        expected.resize(16, 0);
        let key = key_of(RecordText::Short, &text[..length], bytes, 0);
        assert_eq!(key, expected, "{length} of {bytes} bytes");
    }
}

#[test]
fn a_cut_text_has_no_part_of_a_character() {
    for (first, kept) in [(0, 60), (1, 58), (2, 59), (3, 60)] {
        // Characters of 3 bytes behind some of one.
        let text = "a".repeat(first) + &"€".repeat(25);
        let key = key_of(RecordText::Long, text.as_bytes(), text.len(), 0);
        let shown = without_partial_character(&key[..63]);
        let shown = shown.as_deref().unwrap_or(&key[..63]);
        let expected = format!("{}…", &text[..kept]);
        assert_eq!(String::from_utf8_lossy(shown), expected, "{first}");
    }
    assert_eq!(without_partial_character(b"a\xc3"), None, "not cut");
}
