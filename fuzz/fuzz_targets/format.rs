//! Parses any text as a tracepoint's format file, and reads any bytes as a raw record of that
//! format.
#![no_main]

use libfuzzer_sys::fuzz_target;
use perilune::decode::format::Format;

// The text ends at the first NUL and the record follows, so a real format file can be used as a
// seed.
fuzz_target!(|input: &[u8]| {
    let mut halves = input.splitn(2, |byte| *byte == 0);
    let text = String::from_utf8_lossy(halves.next().unwrap_or_default());
    let raw = halves.next().unwrap_or_default();
    let Ok(format) = Format::parse(&text) else { return };
    for field in &format.fields {
        if let Ok(value) = field.read(raw) {
            assert!(value.elements().count() <= raw.len());
        }
    }
    let _ = format.values(raw).count();
});
