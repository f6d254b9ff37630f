//! Tests with format files of the kernel and malformed ones: fields, kinds, and values in raw
//! bytes.

use super::*;
use proptest::prelude::*;

fn one(line: &str) -> Field {
    let text = format!("name: x\nID: 7\nformat:\n\tfield:{line}\n\nprint fmt: \"%d\", REC->x\n");
    Format::parse(&text).unwrap().fields.remove(0)
}

fn kind(line: &str) -> FieldKind {
    one(line).kind
}

#[test]
fn a_file_gives_its_name_id_fields_and_print_format() {
    let format = Format::parse(
        "name: signal_generate\nID: 260\nformat:\n\
         \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
         \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
         \tfield:int sig;\toffset:8;\tsize:4;\tsigned:1;\n\
         \tfield:char comm[16];\toffset:20;\tsize:16;\tsigned:0;\n\n\
         print fmt: \"sig=%d comm=%s; field: %d\", REC->sig, REC->comm\n",
    )
    .unwrap();
    assert_eq!((format.name.as_str(), format.id, format.fixed_size), ("signal_generate", 260, 36));
    assert_eq!(format.print_fmt, "\"sig=%d comm=%s; field: %d\", REC->sig, REC->comm");
    let comm = format.field("comm").unwrap();
    assert_eq!(
        (comm.type_text.as_str(), comm.offset, comm.kind),
        ("char[16]", 20, FieldKind::Chars)
    );
    assert!(format.field("common_pid").unwrap().common);
    assert!(!comm.common);
}

#[test]
fn the_type_makes_a_field_text_regardless_of_the_sign() {
    assert_eq!(kind("char prev_comm[16]; offset:8; size:16; signed:1;"), FieldKind::Chars);
    assert_eq!(kind("char prev_comm[16]; offset:8; size:16; signed:0;"), FieldKind::Chars);
    assert_eq!(kind("const char name[4]; offset:8; size:4; signed:0;"), FieldKind::Chars);
    assert_eq!(kind("unsigned char mac[6]; offset:8; size:6; signed:0;"), FieldKind::Bytes);
    assert_eq!(kind("char correct; offset:8; size:1; signed:0;"), FieldKind::Int);
}

#[test]
fn dynamic_arrays_have_the_kind_of_their_elements() {
    let line = |t: &str| kind(&format!("{t} x; offset:8; size:4; signed:0;"));
    assert_eq!(line("__data_loc char[]"), FieldKind::DataLoc(Element::Char));
    assert_eq!(line("__rel_loc char[]"), FieldKind::RelLoc(Element::Char));
    assert_eq!(line("__data_loc u8[]"), FieldKind::DataLoc(Element::Byte));
    assert_eq!(line("__data_loc unsigned char[]"), FieldKind::DataLoc(Element::Byte));
    assert_eq!(line("__data_loc u64[]"), FieldKind::DataLoc(Element::Int(8)));
    assert_eq!(line("__data_loc unsigned int[]"), FieldKind::DataLoc(Element::Int(4)));
    assert_eq!(line("__data_loc __u16[]"), FieldKind::DataLoc(Element::Int(2)));
    assert_eq!(line("__data_loc struct foo[]"), FieldKind::DataLoc(Element::Byte));
    let long = Element::Int(size_of::<usize>() as u8);
    assert_eq!(line("__data_loc unsigned long[]"), FieldKind::DataLoc(long));
    assert_eq!(line("__data_loc cpumask_t"), FieldKind::DataLoc(long));
}

#[test]
fn the_size_decides_if_a_length_is_not_a_number() {
    let sockaddr = one("__u8 saddr[sizeof(struct sockaddr_in6)]; offset:16; size:28; signed:0;");
    assert_eq!((sockaddr.name.as_str(), sockaddr.kind), ("saddr", FieldKind::Bytes));
    let odd = one("u32 state[MAX[2] + (1)]; offset:16; size:24; signed:0;");
    assert_eq!((odd.name.as_str(), odd.kind), ("state", FieldKind::Array(4)));
    assert_eq!(kind("some_t state[MAX]; offset:16; size:24; signed:0;"), FieldKind::Bytes);
    assert_eq!(kind("some_t state[6]; offset:16; size:24; signed:0;"), FieldKind::Array(4));
    assert_eq!(kind("char name[IFNAMSIZ]; offset:16; size:16; signed:0;"), FieldKind::Chars);
}

#[test]
fn pointers_structures_enumerations_and_odd_sizes_have_their_kinds() {
    assert_eq!(kind("const char * name; offset:8; size:8; signed:0;"), FieldKind::Pointer);
    assert_eq!(kind("const char *const *argv; offset:8; size:8; signed:0;"), FieldKind::Pointer);
    assert_eq!(kind("struct task_struct *p; offset:8; size:8; signed:0;"), FieldKind::Pointer);
    assert_eq!(kind("struct timespec t; offset:8; size:16; signed:0;"), FieldKind::Bytes);
    assert_eq!(kind("union x u; offset:8; size:8; signed:0;"), FieldKind::Bytes);
    assert_eq!(kind("enum zone_type z; offset:8; size:4; signed:0;"), FieldKind::Int);
    assert_eq!(kind("bool success; offset:8; size:1; signed:0;"), FieldKind::Int);
    assert_eq!(kind("u128 wide; offset:8; size:16; signed:0;"), FieldKind::Bytes);
    assert_eq!(kind("unsigned long args[6]; offset:16; size:48; signed:0;"), FieldKind::Array(8));
    assert_eq!(kind("u32 buf[]; offset:24; size:0; signed:0;"), FieldKind::Array(4));
    let name = one("const void* addr; offset:8; size:8; signed:0;").type_text;
    assert_eq!(name, "const void*");
}

#[test]
fn integers_are_read_with_the_sign_of_the_file() {
    let mut raw = vec![0; 16];
    raw[8..12].copy_from_slice(&(-5i32).to_ne_bytes());
    assert_eq!(one("int x; offset:8; size:4; signed:1;").read(&raw), Ok(Value::Int(-5)));
    assert_eq!(
        one("unsigned x; offset:8; size:4; signed:0;").read(&raw),
        Ok(Value::Uint(4294967291))
    );
    assert_eq!(
        one("void * x; offset:8; size:8; signed:0;").read(&raw),
        Ok(Value::Pointer(4294967291))
    );
    assert_eq!(one("u64 x; offset:9; size:8; signed:0;").read(&raw), Err(TooShort));
}

#[test]
fn text_ends_at_nul_or_at_its_size() {
    let raw = b"........bash\0gar\0\0\0\0";
    let field = one("char comm[8]; offset:8; size:8; signed:0;");
    assert_eq!(field.read(raw), Ok(Value::Text(b"bash")));
    assert_eq!(field.read(b"........12345678"), Ok(Value::Text(b"12345678")));
}

#[test]
fn a_data_loc_counts_from_the_record_and_a_rel_loc_from_the_end_of_its_field() {
    let mut raw = vec![0u8; 12];
    raw[8..12].copy_from_slice(&(5u32 << 16 | 12).to_ne_bytes());
    raw.extend(b"name\0");
    let text = Ok(Value::Text(&b"name"[..]));
    assert_eq!(one("__data_loc char[] n; offset:8; size:4; signed:0;").read(&raw), text);
    raw[8..12].copy_from_slice(&(5u32 << 16).to_ne_bytes());
    assert_eq!(one("__rel_loc char[] n; offset:8; size:4; signed:0;").read(&raw), text);
    raw[8..12].copy_from_slice(&(6u32 << 16).to_ne_bytes());
    let cut = one("__rel_loc char[] n; offset:8; size:4; signed:0;");
    assert_eq!(cut.read(&raw), Err(TooShort));
}

#[test]
fn elements_of_arrays_keep_their_width_and_sign() {
    let mut raw = vec![0u8; 8];
    for n in [-1i16, 2, -3] {
        raw.extend(n.to_ne_bytes());
    }
    let value = one("s16 x[3]; offset:8; size:6; signed:1;").read(&raw).unwrap();
    assert_eq!(value.elements().collect::<Vec<_>>(), [-1, 2, -3]);
}

#[test]
fn an_invalid_file_is_reported_with_line_and_reason() {
    let bad = |text: &str| Format::parse(text).unwrap_err().to_string();
    assert_eq!(bad(""), "line 0 of the format: no name");
    assert_eq!(bad("name: x\n"), "line 0 of the format: no ID");
    assert_eq!(bad("name: x\nID: y\n"), "line 2 of the format: the ID is not a number");
    let line = |l: &str| bad(&format!("name: x\nID: 1\nformat:\n\tfield:{l}\n"));
    assert_eq!(line("int x; size:4;"), "line 4 of the format: no offset");
    assert_eq!(line("int x; offset:4;"), "line 4 of the format: no size");
    assert_eq!(line("x]; offset:4; size:4;"), "line 4 of the format: `]` without `[`");
    assert_eq!(line("int *; offset:4; size:4;"), "line 4 of the format: a field without a name");
    assert_eq!(
        line("int x; offset:99999999; size:4;"),
        "line 4 of the format: the offset is not a number below 64 Ki"
    );
}

proptest! {
    #[test]
    fn random_text_never_panics(text in "(?s).{0,200}") {
        let _ = Format::parse(&text);
    }

    #[test]
    fn random_declarations_and_records_never_panic(
            declaration in "(__data_loc |__rel_loc )?(char|u8|unsigned long|struct x|int \\*)\
                            (\\[\\])? [a-z]{0,3}(\\[[0-9a-z()]{0,4}\\])?",
        offset in 0usize..70000, size in 0usize..70000,
        raw in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        for (offset, size) in [(offset, size), (offset % 16, size % 16), (8, 4)] {
            let line = format!("field:{declaration}; offset:{offset}; size:{size}; signed:1;");
            if let Ok(format) = Format::parse(&format!("name: x\nID: 1\n{line}\n")) {
                prop_assert!(format.fixed_size <= 2 << 16);
                for (_, value) in format.values(&raw) {
                    let _ = value.elements().count();
                }
            }
        }
    }
}
