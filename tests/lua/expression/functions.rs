//! Functions of expressions, and text.

use super::{c, lua, record};

/// Returns the texts of the expressions for the first record.
fn texts(expressions: &[&str], records: &[Vec<u8>]) -> Vec<Vec<String>> {
    let all: Vec<String> = expressions.iter().map(|text| (*text).to_owned()).collect();
    lua::texts(&all, records, 0).0
}

#[test]
fn byte_order_is_swapped_as_in_c() {
    let all = [
        "ntohl(ui)",
        "ntohl(si)",
        "htonl(ul)",
        "ntohs(uh)",
        "htons(sh)",
        "ntohs(ui)",
        "ntohl(1)",
        "ntohs(0x1234)",
        "-ntohs(uh)",
    ];
    let pairs: Vec<_> = all.map(|text| (text.to_owned(), text.to_owned())).into();
    c::compare(&pairs, &record::records(24), 0);
}

#[test]
fn text_compares_as_in_c() {
    let pairs = [
        ("text == \"kworker/0:1\"", "!strncmp(text, \"kworker/0:1\", 16)"),
        ("text == \"exactly sixteen!\"", "!strncmp(text, \"exactly sixteen!\", 16)"),
        ("text == \"exactly sixteen!!\"", "0"),
        ("text == \"\"", "!text[0]"),
        ("text != \"nginx\"", "!!strncmp(text, \"nginx\", 16)"),
        ("\"swapper\" == text", "!strncmp(text, \"swapper\", 16)"),
        ("text == \"\\xff\\xfe\"", "!strncmp(text, \"\\xff\\xfe\", 16)"),
        ("text ~ \"kworker/*\"", "!strncmp(text, \"kworker/\", 8)"),
        (
            "text ~ \"*[!a-z]\" ",
            "text[0] && !!strncmp(text, \"swapper\", 16) && !!strncmp(text, \"nginx\", 16)",
        ),
        ("!(text ~ \"n???x\")", "!!strncmp(text, \"nginx\", 16)"),
        ("name == text", "1"),
        ("name == \"swapper\" && rel == \"related\"", "!strncmp(text, \"swapper\", 16)"),
        ("name ~ \"*:1\"", "!strncmp(text, \"kworker/0:1\", 16)"),
        ("\"a\" == \"a\"", "1"),
        ("\"a\\0b\" == \"a\"", "1"),
        ("(si > 0 ? text : \"x\") == \"x\"", "!(si > 0)"),
        ("strncmp(text, \"kworker\", 7) == 0", "strncmp(text, \"kworker\", 7) == 0"),
        ("strncmp(text, \"nginx\", 3) < 0", "strncmp(text, \"nginx\", 3) < 0"),
        ("strncmp(text, \"nginx\", 100) > 0", "strncmp(text, \"nginx\", 16) > 0"),
        ("strncmp(text, name, ub)", "0"),
        ("strncmp(text, \"n\", -1ul) == 0", "0"),
        ("_comm == \"<...>\"", "1"),
    ];
    let pairs: Vec<_> = pairs.map(|(a, b)| (a.to_owned(), b.to_owned())).into();
    c::compare(&pairs, &record::records(24), 60);
}

#[test]
fn printf_prints_what_the_c_librarys_prints() {
    let all = [
        "\"%d\", si",
        "\"%u\", ui",
        "\"%x\", ui",
        "\"%X\", si",
        "\"%o\", si",
        "\"%i|%5d|%-5d|%05d|%+d|% d\", si, sb, sb, sb, sb, sb",
        "\"%ld\", sl",
        "\"%lu\", ul",
        "\"%lx\", ul",
        "\"%llx\", ul",
        "\"%llu\", ul",
        "\"%lld\", sl",
        "\"%#lx\", ul",
        "\"%#x %#o\", ui, ui",
        "\"%20ld|%-20lu|%020lx\", sl, ul, ul",
        "\"%hd %hu %hhd %hhu\", si, si, si, si",
        "\"%c%c\", 'a', 66",
        "\"100%%\"",
        "\"plain\"",
        "\"%.5d|%8.3d|%-8.3d|%.0d\", sb, sb, sb, sb",
        "\"%zu\", sizeof(int)",
        "\"   %03d        %d\", ub, (int)sl",
        "\"%08x\", si",
        "\"%u\", ub",
        "\"%d\", ub * 3",
        "\"%d%%\", si > 0",
        "\"%jd\", sl",
        "\"%s|%10s|%-10s|%.2s\", \"a\", \"b\", \"c\", \"defg\"",
    ];
    let ours: Vec<String> = all.iter().map(|arguments| format!("printf({arguments})")).collect();
    let theirs: Vec<String> = all.iter().map(|arguments| (*arguments).to_owned()).collect();
    let records = record::records(24);
    assert_eq!(lua::texts(&ours, &records, 60).0, c::printed(&theirs, &records));
}

#[test]
fn printf_loses_no_part_of_a_value() {
    let records = record::records(3);
    let all = [
        "printf(\"%d\", sl)",
        "printf(\"%x\", ul)",
        "printf(\"%lx\", si)",
        "printf(\"%p\", ul)",
        "printf(\"%s\", text)",
    ];
    assert_eq!(
        texts(&all, &records)[2],
        ["-1", "ffffffffffffffff", "7fffffff", "0xffffffffffffffff", "swapper"]
    );
}

#[test]
fn names_are_looked_up_at_their_source() {
    let records = record::records(1);
    let all = [
        "syscall_name(39)",
        "syscall_name(-1)",
        "exit_reason_str(1, 12)",
        "exit_reason_str(2, 0x78)",
        "comm_get(0)",
        "comm_get(424242)",
    ];
    #[cfg(target_arch = "x86_64")]
    let first = "getpid";
    #[cfg(not(target_arch = "x86_64"))]
    let first = perilune::base::kernel::names::syscall_name(39u32.into());
    assert_eq!(texts(&all, &records)[0], [first, "syscall_-1", "HLT", "hlt", "swapper", "<...>"]);
    let own = &texts(&["exit_reason_str(12)"], &records)[0];
    assert!(["HLT", "read_cr12"].contains(&own[0].as_str()), "{own:?}");
}

#[test]
fn an_address_of_the_kernel_has_its_symbol() {
    let symbols = std::fs::read_to_string("/proc/kallsyms").unwrap();
    let line = symbols.lines().find(|line| line.ends_with(" T schedule")).unwrap();
    let address = line.split(' ').next().unwrap();
    let source = format!("ksymbol(0x{address} + 5)");
    let texts = texts(&[&source, "ksymbol(1)"], &record::records(1));
    match address.trim_matches('0') {
        "" => assert_eq!(texts[0], ["0x5", "0x1"], "hidden addresses have no names"),
        _ => assert_eq!(texts[0], ["schedule", "0x1"]),
    }
}

#[test]
fn system_gives_the_status_of_the_command() {
    let texts = texts(&["system(\"exit 3\")", "system(\"true\") == 0"], &record::records(1));
    assert_eq!(texts[0], ["3", "1"]);
}

#[test]
fn an_expression_of_a_key_accepts_numbers_and_expression_results() {
    let (out, _) = lua::run(
        "local ev = evsel(\"test:extremes\", function() end)
         local split = expr_of('printf(\"%03d %d\",key>>32,(int)key)', \"key\")
         local bits = expr_of('printf(\"%lx\", key)', \"key\")
         local plain, twice = expr_of(\"key\", \"key\"), exprs_of({ \"key\", \"key * 2\" }, \"key\")
         out:write(split(3 * 2^32 + 7), \"|\", bits(-1), \"|\", \
         bits \"0xffffffff81000001\", \"|\", plain \"0x20000000000001\", \"|\")
         out:write(bits \"0x8000000000000001\", \"|\", bits \"not a key\", \"|\", (select(2, \
         twice(21))))
         out:write(\"|\", tostring(pcall(expr_of, \"si\", \"key\")))",
        &record::records(1),
    );
    assert_eq!(
        out,
        "003 7|ffffffffffffffff|ffffffff81000001|0x20000000000001|8000000000000001|0|42|false"
    );
}

#[test]
fn an_expression_reads_a_kept_event_and_no_other() {
    let (out, _) = lua::run(
        "local p = pending { \"n\", key = \"any\", keep = true }
         local f
         local ev = evsel(\"test:extremes\", function(e)
           local before = p:get(1)
           if before then out:write(f(before.event), \" \", f(e), \"\\n\") end
           p:open(1, e, 0)
         end)
         f = expr_of(\"_tid\", ev)
         evsel(\"test:extremes\", function(e) out:write(tostring(pcall(f, e)), \"\\n\") end)",
        &record::records(3),
    );
    assert_eq!(out, "false\n1000 1001\nfalse\n1001 1002\nfalse\n");
}

#[test]
fn an_expression_reads_each_event_of_a_glob_where_its_own_field_lies() {
    let (out, _) = lua::run(
        "local ev = evsel \"test:*\"
         local both, cpu = expr_of(\"si\", ev), expr_of(\"_cpu\", ev)
         ev:each(function(e) out:write(both(e) == e.si and \"same \" or \"other \", cpu(e), \" \") \
         end)
         out:write(tostring(select(2, pcall(expr_of, \"ui\", ev))):match \"^[^\\n]*\", \"\\n\")",
        &record::records(32)[30..],
    );
    let refusal = "test:moved has no field 'ui'; did you mean 'si'? It has si\n";
    assert_eq!(out, refusal.to_owned() + "same 0 same 0 same 1 same 1 ");
}

#[test]
fn a_field_reads_the_same_by_name_and_by_expression() {
    let (out, _) = lua::run(
        "local ev = evsel \"test:extremes\"
         local f = exprs_of({ \"sl\", \"ul\", \"longs[1]\", \"text\", \"name\", \"_comm\", \"_ip\" \
         }, ev)
         ev:each(function(e)
           local sl, ul, long, text, name, comm, ip = f(e)
           local same = sl == e.sl and ul == e.ul and long == e.longs[1] and text == e.text
           out:write(tostring(same and name == e.name and comm == e._comm and ip == e._ip), \"\\n\")
         end)",
        &record::records(40),
    );
    assert_eq!(out, "true\n".repeat(40));
}
