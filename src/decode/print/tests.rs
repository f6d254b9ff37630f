//! Tests of formatted records: each conversion and each kind of pointer.

mod expressions;

use super::*;
use crate::base::event::value::Value as Field;

/// A kernel with a few names.
struct Few;

impl KernelData for Few {
    fn hz(&self) -> u32 {
        250
    }
    fn enumerator(&self, name: &str) -> Option<i64> {
        (name == "KNOWN").then_some(3)
    }
    fn symbol(&self, address: u64) -> Option<Symbol<'_>> {
        let offset = address.checked_sub(0x1000).filter(|offset| *offset < 0x100)?;
        let module = (offset >= 0x80).then_some("module");
        Some(Symbol { name: "schedule", offset, size: 0x100, module })
    }
    fn text(&self, address: u64) -> Option<&[u8]> {
        (address == 0x2000).then_some(b"rcu")
    }
}

/// Fields of every kind, for [`record`].
const FIELDS: &str = "name: x\nID: 1\nformat:
\tfield:unsigned short common_type; offset:0; size:2; signed:0;
\tfield:int minus; offset:4; size:4; signed:1;
\tfield:u64 big; offset:8; size:8; signed:0;
\tfield:u8 byte; offset:16; size:1; signed:0;
\tfield:s16 half; offset:18; size:2; signed:1;
\tfield:u32 flags; offset:20; size:4; signed:0;
\tfield:void * ip; offset:24; size:8; signed:0;
\tfield:const char * text; offset:32; size:8; signed:0;
\tfield:char comm[8]; offset:40; size:8; signed:0;
\tfield:u8 ip4[4]; offset:48; size:4; signed:0;
\tfield:u32 numbers[3]; offset:52; size:12; signed:0;
\tfield:__data_loc char[] name; offset:64; size:4; signed:0;
\tfield:__data_loc u8[] bytes; offset:68; size:4; signed:0;
\tfield:__rel_loc u16[] rel; offset:72; size:4; signed:0;
\tfield:u8 ip6[16]; offset:76; size:16; signed:0;
\tfield:u8 socket[28]; offset:92; size:28; signed:0;

print fmt: ";

fn record() -> Vec<u8> {
    let mut raw = vec![0; 120];
    let mut put = |at: usize, bytes: &[u8]| raw[at..at + bytes.len()].copy_from_slice(bytes);
    put(4, &(-5_i32).to_ne_bytes());
    put(8, &0xffff_ffff_8100_0000_u64.to_ne_bytes());
    put(16, &[200]);
    put(18, &(-2_i16).to_ne_bytes());
    put(20, &0x85_u32.to_ne_bytes());
    put(24, &0x1010_u64.to_ne_bytes());
    put(32, &0x2000_u64.to_ne_bytes());
    put(40, b"bash\0xyz");
    put(48, &[192, 168, 0, 1]);
    put(52, &[1, 0, 0, 0, 255, 255, 255, 255, 16, 0, 0, 0]);
    put(64, &(5 << 16 | 120_u32).to_ne_bytes());
    put(68, &(4 << 16 | 125_u32).to_ne_bytes());
    put(72, &(4 << 16 | 53_u32).to_ne_bytes());
    put(76, &[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    put(92, &2_u16.to_ne_bytes());
    put(94, &[0, 80, 127, 0, 0, 1]);
    raw.extend(b"name\0\x01\x02\xab\xff");
    raw.extend([1, 0, 2, 0]);
    raw
}

fn format(print_fmt: &str) -> Format {
    Format::parse(&format!("{FIELDS}{print_fmt}\n")).unwrap()
}

/// Returns the text of a record, or why the format is rejected.
fn printed_of(print_fmt: &str, raw: &[u8]) -> String {
    let program = match PrintProgram::compile(&format(print_fmt), &Few) {
        Ok(program) => program,
        Err(why) => return format!("refused: {why}"),
    };
    let mut out = Vec::new();
    match program.push(&mut out, raw, &Few) {
        Ok(()) => String::from_utf8_lossy(&out).into_owned(),
        Err(why) => format!("failed: {why}"),
    }
}

fn printed(print_fmt: &str) -> String {
    printed_of(print_fmt, &record())
}

fn all(cases: &[(&str, &str)]) {
    for (print_fmt, expected) in cases {
        assert_eq!(printed(print_fmt), *expected, "{print_fmt}");
    }
}

#[test]
fn arguments_of_a_system_call_are_printed_from_its_record() {
    let format = Format::parse(
        "name: sys_enter_openat\nID: 1\nformat:\n\
         \tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;\n\
         \tfield:int dfd;\toffset:16;\tsize:8;\tsigned:0;\n\
         \tfield:const char * filename;\toffset:24;\tsize:8;\tsigned:0;\n\
         \tfield:const char * buf;\toffset:32;\tsize:8;\tsigned:0;\n\
         \tfield:__data_loc char[] __filename_val;\toffset:40;\tsize:4;\tsigned:0;\n\
         \tfield:__data_loc u8[] __buf_val;\toffset:44;\tsize:4;\tsigned:0;\n\n\
         print fmt: \"dfd: 0x%08lx, filename: 0x%08lx \\\"%s\\\", buf: 0x%08lx (%s)\", \
         ((unsigned long)(REC->dfd)), ((unsigned long)(REC->filename)), __get_str(__filename_val), \
         ((unsigned long)(REC->buf)), __print_dynamic_array(__buf_val, 1)\n",
    )
    .unwrap();
    let mut raw = vec![0; 48];
    raw[16..24].copy_from_slice(&3u64.to_ne_bytes());
    raw[24..32].copy_from_slice(&0x7ffe_0000_1000u64.to_ne_bytes());
    raw[40..44].copy_from_slice(&(6u32 << 16 | 48).to_ne_bytes());
    raw[44..48].copy_from_slice(&(3u32 << 16 | 54).to_ne_bytes());
    raw.extend(b"/etc/\0\x01\x02\xff");
    let values: Vec<(&str, Field<'_>)> = format.values(&raw).collect();
    assert_eq!(values[2], ("filename", Field::Pointer(0x7ffe_0000_1000)));
    assert_eq!(values[4], ("__filename_val", Field::Text(b"/etc/")));
    let program = PrintProgram::compile(&format, &Few).unwrap();
    let mut out = Vec::new();
    program.push(&mut out, &raw, &Few).unwrap();
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "dfd: 0x00000003, filename: 0x7ffe00001000 \"/etc/\", buf: 0x00000000 ({0x1,0x2,0xff})"
    );
}

#[test]
fn numbers_are_formatted_as_in_the_kernel() {
    all(&[
        (r#""%d %i %u %x %X %o", REC->minus, REC->minus, 7, 0xab, 0xab, 8"#, "-5 -5 7 ab AB 10"),
        (r#""[%5d][%-5d][%05d][%+d][% d]", 42, 42, 42, 42, 42"#, "[   42][42   ][00042][+42][ 42]"),
        (r#""[%6d][%06d][%-6d]", REC->minus, REC->minus, REC->minus"#, "[    -5][-00005][-5    ]"),
        (r##""%#x %#X %#o %#x %#o", 255, 255, 8, 0, 0"##, "0xff 0XFF 010 0x0 0"),
        (r##""[%#06x][%#6x][%-#6x]", 255, 255, 255"##, "[0x00ff][  0xff][0xff  ]"),
        (r#""%.3d %.0d %6.3d|%-6.3d|", 5, 0, 5, 5"#, "005 0    005|005   |"),
        (r#""[%*d][%-*d][%*d]", 4, 7, 4, 7, 0 - 4, 7"#, "[   7][7   ][7   ]"),
        (
            r#""%hhx %hx %lx %llx %zx", REC->minus, REC->minus, REC->big, REC->big, REC->big"#,
            "fb fffb ffffffff81000000 ffffffff81000000 ffffffff81000000",
        ),
        (r#""%hhd %hhu %Lu", 200, 200, 10ULL"#, "-56 200 10"),
        (r#""%lld %d", 1ULL << 63, 0x80000000"#, "-9223372036854775808 -2147483648"),
        (r#""%u %x", REC->minus, REC->minus"#, "4294967291 fffffffb"),
        (r#""100%% %c%c|%3c|%-3c|", 65, 'b', 'c', 'd'"#, "100% Ab|  c|d  |"),
    ]);
}

#[test]
fn values_known_only_to_the_kernel_print_as_question_marks() {
    let page = r#""page=%p pfn=0x%lx", (((struct page *)vmemmap_base) + (REC->big)), REC->big"#;
    assert_eq!(printed(page), "page=? pfn=0xffffffff81000000");
    let choice = r#""%p|%d", REC->big != -1UL ?
        (((struct page *)vmemmap_base) + (REC->big)) : ((void *)0), 5"#;
    assert_eq!(printed(choice), "?|5");
    let unknown = |text| PrintProgram::compile(&format(text), &Few).unwrap().unknown();
    assert_eq!([unknown(page), unknown(r#""%d", 1"#)], [Some("vmemmap_base"), None]);
}

#[test]
fn control_characters_are_escaped_in_the_record_but_not_in_the_format() {
    let mut raw = record();
    let name = raw.windows(5).position(|bytes| bytes == b"name\0").unwrap();
    raw[name..name + 4].copy_from_slice(b"a\tb\x1b");
    let text = printed_of("\"%s\tNode: %d [%-8s]\", __get_str(name), 5, __get_str(name)", &raw);
    assert_eq!(text, "a\\tb\\x1b\tNode: 5 [a\\tb\\x1b]");
}

#[test]
fn text_is_truncated_and_padded() {
    all(&[
        (
            r#""%s|%8s|%-8s|%.2s|%5.2s|", REC->comm, REC->comm, REC->comm, REC->comm, REC->comm"#,
            "bash|    bash|bash    |ba|   ba|",
        ),
        (r#""%.*s", 3, __get_str(name)"#, "nam"),
        (r#""%.*s|", REC->minus, __get_str(name)"#, "|"),
        (r#""%s %s", __get_str(name), REC->minus ? "yes" : "no""#, "name yes"),
        (r#""%s %s", REC->text, REC->ip"#, "rcu 0x1010"),
        (r#""%s", REC->byte ? ((void *)0) : __get_str(name)"#, "(null)"),
        (r#""%c", __get_str(name)[1]"#, "a"),
        (r#""plain""#, "plain"),
        ("\"line\n\", REC->byte", "line"),
    ]);
}

#[test]
fn a_template_may_hold_quotes() {
    all(&[
        (r#""name="%s", x=%d", __get_str(name), REC->minus"#, r#"name="name", x=-5"#),
        (r#""name=\"%s\"", __get_str(name)"#, r#"name="name""#),
        (r#""a" "b %d" "c", 1"#, "ab 1c"),
    ]);
}

#[test]
fn symbols_without_names_print_as_numbers() {
    all(&[
        (
            r#""%pS %ps %pF %pf", REC->ip, REC->ip, REC->ip, REC->ip"#,
            "schedule+0x10/0x100 schedule schedule+0x10/0x100 schedule",
        ),
        (
            r#""%pS %pB", (void *)0x1080UL, (void *)0x1080UL"#,
            "schedule+0x80/0x100 [module] schedule+0x80/0x100",
        ),
        (r#""%pS", (void *)0x10UL"#, "0x10"),
        (
            r#""[%24pS][%-24ps]", REC->ip, REC->ip"#,
            "[     schedule+0x10/0x100][schedule                ]",
        ),
        (
            r#""%p %px %pK", REC->ip, REC->ip, REC->ip"#,
            "0000000000001010 0000000000001010 0000000000001010",
        ),
        (r##""0x%p %#p", ((void *)0), REC->ip"##, "0x0000000000000000 0x0000000000001010"),
        (r#""%pe %pe", (void *)-2L, REC->ip"#, "-ENOENT 0000000000001010"),
    ]);
}

#[test]
fn network_and_hardware_addresses_are_formatted() {
    all(&[
        (
            r#""%pI4 %pi4 %pI4l", REC->ip4, REC->ip4, REC->ip4"#,
            "192.168.0.1 192.168.000.001 1.0.168.192",
        ),
        (r#""%pI6", REC->ip6"#, "2001:0db8:0000:0000:0000:0000:0000:0001"),
        (r#""%pi6", REC->ip6"#, "20010db8000000000000000000000001"),
        (r#""%pI6c %pI6c", REC->ip6, &REC->ip6"#, "2001:db8::1 2001:db8::1"),
        (r#""%pISpc %pIS", REC->socket, REC->socket"#, "127.0.0.1:80 127.0.0.1"),
        (
            r#""%pM %pMF %pm %pMR", REC->ip6, REC->ip6, REC->ip6, REC->ip6"#,
            "20:01:0d:b8:00:00 20-01-0d-b8-00-00 20010db80000 00:00:b8:0d:01:20",
        ),
        (
            r#""%pU %pUB", REC->ip6, REC->ip6"#,
            "20010db8-0000-0000-0000-000000000001 20010DB8-0000-0000-0000-000000000001",
        ),
        (r#""%pUl", REC->ip6"#, "b80d0120-0000-0000-0000-000000000001"),
    ]);
    let of = |bytes: [u8; 16]| {
        let mut raw = record();
        raw[76..92].copy_from_slice(&bytes);
        printed_of(r#""%pI6c", REC->ip6"#, &raw)
    };
    let group = |groups: [u16; 8]| {
        let mut bytes = [0; 16];
        for (to, group) in bytes.chunks_exact_mut(2).zip(groups) {
            to.copy_from_slice(&group.to_be_bytes());
        }
        of(bytes)
    };
    assert_eq!(group([0; 8]), "::");
    assert_eq!(group([0, 0, 0, 0, 0, 0, 0, 1]), "::1");
    assert_eq!(group([1, 0, 0, 2, 0, 0, 0, 3]), "1:0:0:2::3");
    assert_eq!(group([1, 0, 2, 3, 4, 5, 6, 7]), "1:0:2:3:4:5:6:7");
    assert_eq!(group([1, 2, 0, 0, 0, 0, 0, 0]), "1:2::");
    assert_eq!(group([0, 0, 0, 0, 0, 0xffff, 0x7f00, 1]), "::ffff:127.0.0.1");
    let mut raw = record();
    raw[92..94].copy_from_slice(&10_u16.to_ne_bytes());
    raw[94..96].copy_from_slice(&443_u16.to_be_bytes());
    raw[100..116].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(printed_of(r#""%pISpc", REC->socket"#, &raw), "[::1]:443");
    raw[92] = 77;
    assert_eq!(printed_of(r#""%pISpc", REC->socket"#, &raw), "(einval)");
}

#[test]
fn bytes_and_bit_sets_are_formatted() {
    all(&[
        (
            r#""%*ph %*phC %*phD %*phN", 3, REC->ip4, 3, REC->ip4, 3, REC->ip4, 3, REC->ip4"#,
            "c0 a8 00 c0:a8:00 c0-a8-00 c0a800",
        ),
        (r#""%2ph|%ph", REC->ip4, REC->ip4"#, "c0 a8|c0"),
        (r#""%*pb %*pbl", 24, REC->ip4, 24, REC->ip4"#, "00a8c0 6-7,11,13,15"),
        (r#""%*pb %*pbl|", 40, REC->numbers, 0, REC->numbers"#, "ff,00000001 |"),
        (r#""%*pbl", 64, REC->numbers"#, "0,32-63"),
        (
            r#""%s %s", __print_hex(REC->ip4, 4), __print_hex_str(REC->ip4, 4)"#,
            "c0 a8 00 01 c0a80001",
        ),
        (
            r#""%s", __print_hex(__get_dynamic_array(bytes), __get_dynamic_array_len(bytes))"#,
            "01 02 ab ff",
        ),
        (r#""%s", __print_array(REC->numbers, 3, sizeof(u32))"#, "{0x1,0xffffffff,0x10}"),
        (r#""%s", __print_array(__get_dynamic_array(bytes), 0, 1)"#, "{}"),
        (r#""%s %s", __print_dynamic_array(rel, 2), __get_rel_bitmask(rel)"#, "{0x1,0x2} 00020001"),
        (
            r#""%s", __print_hex_dump("P ", 2, 16, 1, REC->ip6, 16, 1)"#,
            "\nP 00000000: 20 01 0d b8 00 00 00 00 00 00 00 00 00 00 00 01   ...............\n",
        ),
    ]);
}
