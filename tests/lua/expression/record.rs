//! The event of these tests: fields of every width and sign, arrays and text, in records of extreme
//! values.

use perilune::decode::format::Format;

/// Name, C type, offset, size, and whether the type is signed.
const FIELDS: [(&str, &str, usize, usize, bool); 15] = [
    ("sb", "signed char", 8, 1, true),
    ("ub", "unsigned char", 9, 1, false),
    ("sh", "short", 10, 2, true),
    ("uh", "unsigned short", 12, 2, false),
    ("zero", "unsigned char", 14, 1, false),
    ("one", "unsigned char", 15, 1, false),
    ("si", "int", 16, 4, true),
    ("ui", "unsigned int", 20, 4, false),
    ("sl", "long", 24, 8, true),
    ("ul", "unsigned long", 32, 8, false),
    ("count", "unsigned int", 40, 4, false),
    ("text[16]", "char", 44, 16, true),
    ("ints[4]", "int", 60, 16, true),
    ("longs[2]", "unsigned long", 76, 16, false),
    ("shorts[2]", "unsigned short", 92, 4, false),
];
/// Offsets of the location words of `name` (`__data_loc`), `rel` (`__rel_loc`) and `dyn` (an
/// array), behind the fixed fields.
const NAME: usize = 96;
const REL: usize = 100;
const DYN: usize = 104;
const FIXED: usize = 108;

/// Name of the event.
pub(crate) const EVENT: &str = "test:extremes";

/// Returns the format of the event.
pub(crate) fn format() -> Format {
    let mut text = "name: extremes\nID: 7\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n"
        .to_owned();
    for (name, ty, offset, size, signed) in FIELDS {
        let signed = u8::from(signed);
        text.push_str(&format!(
            "\tfield:{ty} {name};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n"
        ));
    }
    text.push_str(&format!(
        "\tfield:__data_loc char[] name;\toffset:{NAME};\tsize:4;\tsigned:0;\n\
         \tfield:__rel_loc char[] rel;\toffset:{REL};\tsize:4;\tsigned:0;\n\
         \tfield:__data_loc int[] dyn;\toffset:{DYN};\tsize:4;\tsigned:1;\n\nprint fmt: \"\"\n"
    ));
    Format::parse(&text).unwrap()
}

/// Returns the record as a C structure.
pub(crate) fn structure() -> String {
    let mut text = "struct record { char common[8];".to_owned();
    for (name, ty, ..) in FIELDS {
        text.push_str(&format!("{ty} {name};"));
    }
    text + "unsigned char rest[64]; } __attribute__((packed));\n"
}

/// Returns the names of the fields, as macros of `r->name`.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    FIELDS.iter().map(|(name, ..)| name.split('[').next().unwrap_or(name))
}

const BYTES: [u64; 6] = [0, 1, 0x7f, 0x80, 0xff, 0x55];
const HALVES: [u64; 7] = [0, 1, 0x7fff, 0x8000, 0xffff, 0x1234, 0xff80];
const WORDS: [u64; 10] = [
    0,
    1,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0xffff_fff9,
    0x1234_5678,
    0x8000_0001,
    1000,
    0xffff_8000,
];
const LONGS: [u64; 16] = [
    0,
    1,
    u64::MAX,
    1 << 63,
    (1 << 63) - 1,
    1 << 53,
    (1 << 53) + 1,
    (1u64 << 53).wrapping_neg() - 1,
    0xffff_ffff_8100_0001,
    0x0123_4567_89ab_cdef,
    u64::MAX - 6,
    1_000_000_000_007,
    1 << 32,
    0xffff_ffff,
    0x8000_0000,
    (1 << 63) + 1,
];
const TEXTS: [&[u8]; 6] =
    [b"", b"kworker/0:1", b"swapper", b"exactly sixteen!", b"nginx\0junk", b"\xff\xfe"];

/// Returns records that combine extremes: each field has each of its values, with varying values in
/// the other fields.
pub(crate) fn records(count: usize) -> Vec<Vec<u8>> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) as usize
    };
    (0..count).map(|n| record(n, &mut next)).collect()
}

fn record(n: usize, next: &mut dyn FnMut() -> usize) -> Vec<u8> {
    let mut bytes = vec![0; FIXED];
    let mut put = |at: usize, size: usize, value: u64| {
        bytes[at..at + size].copy_from_slice(&value.to_ne_bytes()[..size]);
    };
    // The first records combine the first values of each list; later values are random.
    let mut pick = |list: &[u64]| if n < 3 { list[n] } else { list[next() % list.len()] };
    for (name, _, offset, size, _) in FIELDS {
        let list: &[u64] = match (name, size) {
            ("zero", _) => &[0, 0, 0],
            ("one", _) => &[1, 1, 1],
            ("count", _) => &[3, 31, 63, 7, 33, 0, 64],
            (_, 1) => &BYTES,
            (_, 2) => &HALVES,
            (_, 4) if !name.contains('[') => &WORDS,
            (_, 8) => &LONGS,
            _ => continue,
        };
        let value = pick(list);
        put(offset, size, value);
    }
    for i in 0..4 {
        let value = pick(&WORDS);
        put(60 + 4 * i, 4, value);
    }
    for i in 0..2 {
        let (long, half) = (pick(&LONGS), pick(&HALVES));
        put(76 + 8 * i, 8, long);
        put(92 + 2 * i, 2, half);
    }
    let text = TEXTS[n % TEXTS.len()];
    let place = |offset: usize, length: usize| (offset | (length << 16)) as u64;
    put(NAME, 4, place(FIXED, text.len() + 1));
    put(REL, 4, place(FIXED + 20 - (REL + 4), 8));
    put(DYN, 4, place(FIXED + 28, 12));
    bytes[44..44 + text.len()].copy_from_slice(text);
    bytes.extend(text);
    bytes.resize(FIXED + 20, 0);
    bytes.extend(b"related\0");
    for value in [-1i32, i32::MIN, 77] {
        bytes.extend(value.to_ne_bytes());
    }
    bytes
}
