//! Parameters of functions by their names: integers, text, and members of structures behind
//! pointers have the values that the program passed.

use std::process::Command;

use super::{Program, sum};
use crate::live::{live_tests, skip_anywhere};
use crate::tool::Run;

live_tests! {
    parameters_have_the_names_and_types_of_the_debug_information,
    text_and_members_of_structures_are_read_on_request,
    unsigned_bit_fields_have_the_values_that_the_program_set,
    memory_that_cannot_be_read_is_shown_as_a_fault,
    registers_beside_parameters_are_printed_if_they_are_requested,
    parameters_are_read_from_a_debug_file,
    parameters_are_read_from_compressed_sections_and_from_other_units,
    parameters_that_cannot_be_read_are_refused_with_the_reason,
    a_function_of_cpp_has_the_name_that_stacks_show,
    parameters_of_a_kernel_function_are_read_by_the_kernels_types,
}

/// `chain N KIDS`: calls `handle` N times, and each other function once.
pub(super) const SOURCE: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#define PLAIN __attribute__((noipa))
struct user { int id; char name[16]; const char *shell; unsigned char *raw; };
struct request { unsigned char kind; struct user *owner; struct { short depth; }; int low : 4;
                 unsigned mode : 7, size : 20; struct { unsigned char flag : 1; }; };
struct pair { long a, b; };
enum color { RED = -3, BLUE = 2 };
PLAIN int handle(int fd, const char *path, struct request *req, double ratio, unsigned char level,
                 enum color color) {
    return fd + path[0] + req->kind + (int)ratio + level + color;
}
PLAIN long by_value(long first, struct pair pair, long last) { return first + pair.a + last; }
PLAIN struct pair make(long first) { return (struct pair){ first, first }; }
PLAIN int negated(int i) { return -i; }
PLAIN const char *label(long i) { return i % 2 ? "odd" : "even"; }
PLAIN double ratio_of(long i) { return i / 2.0; }
PLAIN struct user *same(struct user *user) { return user; }
int main(int argc, char **argv) {
    struct user user = { 7, "", "/bin/sh", (unsigned char *)"bytes" };
    struct request req = { 200, &user, { -5 }, 1, 0, 0xabcde, { 1 } };
    char path[64];
    for (long i = 0, n = atol(argv[1]); i < n; i++) {
        snprintf(path, sizeof path, "/tmp/file %ld", i);
        req.mode = i % 128;
        snprintf(user.name, sizeof user.name, "user%ld", i % 2);
        handle((int)-i, path, &req, 0.5, 250, RED);
        negated((int)i); label(i); same(&user);
    }
    by_value(1, (struct pair){ 2, 3 }, 4);
    make(1);
    ratio_of(3);
    return 0;
}
"#;

const N: u32 = 300;

/// Skips a test of the text of user functions if the run warned that the kernel may write a long
/// one beyond its buffer.
pub(crate) fn needs_user_text(run: &Run) {
    if run.stderr.contains("may write beyond its buffer") {
        skip_anywhere("the text of user functions needs Linux 6.12");
    }
}

fn parameters_have_the_names_and_types_of_the_debug_information() {
    let program = Program::of(SOURCE, &["-g"]);
    let event = program.function("uprobe", "handle");
    let run = program.watched(&["trace", "-e", &event], N, 0);
    let n = i128::from(N);
    assert_eq!(run.of("event").count() as i128, n, "{}", run.stderr);
    assert_eq!(sum(&run, "fd"), -n * (n - 1) / 2);
    assert_eq!((sum(&run, "level"), sum(&run, "color")), (250 * n, -3 * n));
    // The registers are fields, too; the upper half of `fd` is not defined.
    assert!(
        run.of("event")
            .all(|e| e["arg1"].as_i64().map(|r| r as i32) == e["fd"].as_i64().map(|r| r as i32))
    );
    assert!(run.of("event").all(|e| e["path"].is_null() && e["ratio"].is_null()));
    run.is_complete();
    // The kernel filters by them.
    let run = program.watched(&["trace", "-e", &format!("{event}/fd < -290/")], N, 0);
    assert_eq!(run.of("event").count(), 9, "{}", run.stderr);
}

fn text_and_members_of_structures_are_read_on_request() {
    let program = Program::of(SOURCE, &["-g", "-O1"]);
    let paths = "path, fd, req.owner.id, req.owner.name, req.owner.shell, req.kind, req.depth";
    let event = program.function("uprobe", &format!("handle({paths})"));
    let run = program.watched(&["trace", "-e", &event], N, 0);
    needs_user_text(&run);
    assert_eq!(run.of("event").count() as u32, N, "{}", run.stderr);
    for (i, event) in run.of("event").enumerate() {
        assert_eq!(event["fd"], -(i as i64));
        assert_eq!(event["path"], format!("/tmp/file {i}"));
        assert_eq!(event["req_owner_name"], format!("user{}", i % 2));
        assert_eq!(
            (&event["req_owner_id"], &event["req_owner_shell"]),
            (&7.into(), &"/bin/sh".into())
        );
        assert_eq!((&event["req_kind"], &event["req_depth"]), (&200.into(), &(-5).into()));
        assert!(event["arg1"].is_null());
    }
    run.is_complete();
    let filtered = format!("{}/path ~ \"*file 29?\"/", program.function("uprobe", "handle(path)"));
    let run = program.watched(&["trace", "-e", &filtered], N, 0);
    assert_eq!(run.of("event").count(), 10, "{}", run.stderr);
}

fn unsigned_bit_fields_have_the_values_that_the_program_set() {
    let program = Program::of(SOURCE, &["-g", "-O1"]);
    let event = program.function("uprobe", "handle(req.mode, req.size, req.flag, req.kind)");
    let run = program.watched(&["trace", "-e", &event], N, 0);
    assert_eq!(run.of("event").count() as u32, N, "{}", run.stderr);
    for (i, event) in run.of("event").enumerate() {
        assert_eq!(event["req_mode"], i as u64 % 128, "{event}");
        assert_eq!(
            (&event["req_size"], &event["req_flag"], &event["req_kind"]),
            (&0xabcde.into(), &1.into(), &200.into())
        );
    }
    run.is_complete();
    let filtered = program.function("uprobe", "handle(req.mode)") + "/req_mode == 5/";
    let run = program.watched(&["trace", "-e", &filtered], N, 0);
    assert_eq!(run.of("event").count(), 3, "{}", run.stderr);
}

/// `chain N`: calls `handle` N times for each kind of memory.
const FAULTS: &str = r#"
#include <stdlib.h>
struct user { int id; const char *name; };
struct request { long pad; struct user *user; };
__attribute__((noipa)) long handle(int kind, const char *text, struct request *r) {
    return kind + (long)text + (long)r;
}
int main(int argc, char **argv) {
    struct user user = { 77, "bob" };
    struct request good = { 5, &user }, no_user = { 6, 0 };
    for (int i = 0, n = atoi(argv[1]); i < n; i++) {
        handle(0, "", &good);
        handle(1, (const char *)16, &no_user);
        handle(0, "", &good);
        handle(2, "text", 0);
        handle(0, "", &good);
        handle(3, "text", (struct request *)8);
    }
    return 0;
}
"#;

fn memory_that_cannot_be_read_is_shown_as_a_fault() {
    let program = Program::of(FAULTS, &["-g"]);
    // The kernel leaves other bytes in a text that it cannot reach, if another text is behind it.
    let paths = ["kind, text, r.user.name, r.user.id, r.pad", "kind, r.user.name, r.user.id, text"];
    for (paths, has_pad) in paths.into_iter().zip([true, false]) {
        let event = program.function("uprobe", &format!("handle({paths})"));
        let run = program.watched(&["trace", "-e", &event], N, 0);
        needs_user_text(&run);
        assert_eq!(run.of("event").count() as u32, 6 * N, "{}", run.stderr);
        run.of("event").for_each(|event| check_faults(event, has_pad));
        run.is_complete();
    }
    let (all, one_text) = ("kind, r.user.name, r.user.id, text", "kind, text");
    for (paths, condition, passed) in [
        (all, "r_user_id == 77", 3),
        (all, "r_user_id == 0", 3),
        (all, "kind > 0 && r_user_id > 0", 0),
        (all, "r_user_name == \"text\"", 0),
        (all, "r_user_name == \"(fault)\" || r_user_id == 77", 6),
        (one_text, "text == \"text\"", 2),
        (one_text, "text == \"(fault)\"", 1),
        (one_text, "text != \"text\"", 4),
        (one_text, "kind < 5000000000", 6),
        (one_text, "kind == 4294967297", 0),
    ] {
        let filtered = program.function("uprobe", &format!("handle({paths})/{condition}/"));
        let run = program.watched(&["trace", "-e", &filtered], N, 0);
        assert_eq!(run.of("event").count() as u32, passed * N, "{condition}: {}", run.stderr);
    }
    the_faults_of_a_text_are_counted(&program);
}

/// Checks the values of an event of [`FAULTS`]. `has_pad`: `r.pad` is among them.
fn check_faults(event: &serde_json::Value, has_pad: bool) {
    let (text, name) = match event["kind"].as_i64() {
        Some(0) => ("", "bob"),
        Some(1) => ("(fault)", "(fault)"),
        _ => ("text", "(fault)"),
    };
    assert_eq!((&event["text_"], &event["r_user_name"]), (&text.into(), &name.into()));
    // The pointers show whether the numbers behind them were read.
    let pointer = |name: &str| {
        event[name].as_str().map_or(event[name].as_u64(), |text| {
            u64::from_str_radix(text.trim_start_matches("0x"), 16).ok()
        })
    };
    let (r, user) = (pointer("r").expect("a pointer"), pointer("r_user").expect("a pointer"));
    let kind = event["kind"].as_i64().expect("a number");
    assert_eq!((r == 0, r == 8, user == 0), (kind == 2, kind == 3, kind != 0), "{event}");
    if has_pad {
        assert_eq!(event["r_pad"], if kind < 2 { 5 + kind } else { 0 }, "{event}");
    }
    assert_eq!(event["r_user_id"], if kind == 0 { 77 } else { 0 }, "{event}");
}

fn the_faults_of_a_text_are_counted(program: &Program) {
    for (key, faults) in [("r_user_name", 3), ("text", 1)] {
        let event = program.function("uprobe", "handle(text, r.user.name)");
        let run = program.watched(&["top", "-e", &event, "-k", key], N, 0);
        let count = |row: &serde_json::Value| {
            let cells = row.as_object().expect("a row").iter();
            let of_event = cells.filter(|(name, _)| name.starts_with("uprobe_"));
            of_event.filter_map(|(_, n)| n.as_u64()).sum::<u64>()
        };
        let of_fault = run.of("row").filter(|row| row[key] == "(fault)");
        let counted: u64 = of_fault.map(count).sum();
        assert_eq!(counted, u64::from(faults * N), "{:?}", run.objects);
    }
}

fn registers_beside_parameters_are_printed_if_they_are_requested() {
    let program = Program::of(SOURCE, &["-g"]);
    let output = |parameters: &str| {
        let event = program.function("uprobe", &format!("handle{parameters}"));
        let out = Command::new(env!("CARGO_BIN_EXE_perilune"))
            .args(["trace", "-e", &event, "--", &program.path(), "1", "0"])
            .output()
            .expect("the built command runs");
        String::from_utf8_lossy(&out.stdout).into_owned()
    };
    // The floating-point parameter before it has no such register.
    let both = output("(arg4, level)");
    assert!(both.contains(": arg4=0xfa level=250"), "{both}");
    let all = output("");
    assert!(all.contains("level=250") && !all.contains("arg4"), "{all}");
}

fn parameters_are_read_from_a_debug_file() {
    let program = Program::of(SOURCE, &["-g"]);
    program.run(Command::new("objcopy").args(["--only-keep-debug", "chain", "chain.debug"]));
    program.run(Command::new("strip").args(["-g", "-s", "chain"]));
    program.run(Command::new("objcopy").args(["--add-gnu-debuglink=chain.debug", "chain"]));
    let run = program.watched(&["trace", "-e", &program.function("uprobe", "handle(level)")], N, 0);
    assert_eq!(sum(&run, "level"), 250 * i128::from(N), "{}", run.stderr);
}

fn parameters_are_read_from_compressed_sections_and_from_other_units() {
    // The sections of a small program are compressed only if that makes them smaller.
    let padding = "int padding_with_a_long_name_that_compresses_well;\n";
    let padding: String = (0..200).map(|i| padding.replace("well", &format!("well_{i}"))).collect();
    let source = padding + SOURCE;
    let link_time = &["-g", "-O2", "-flto"];
    for (flags, compression) in [
        (&["-g"][..], "zlib"),
        (&["-g"], "zstd"),
        (link_time, "none"),
        (link_time, "zstd"),
        (&["-gdwarf-4", "-O2", "-flto"], "zlib"),
    ] {
        let program = Program::of(&source, flags);
        let compress = format!("--compress-debug-sections={compression}");
        program.run(Command::new("objcopy").args([&compress, "chain"]));
        let event = program.function("uprobe", "handle(fd, level, req.kind, req.depth)");
        let run = program.watched(&["trace", "-e", &event], N, 0);
        assert_eq!(run.of("event").count() as u32, N, "{flags:?} {compression}: {}", run.stderr);
        for (i, event) in run.of("event").enumerate() {
            assert_eq!((&event["fd"], &event["level"]), (&(-(i as i64)).into(), &250.into()));
            assert_eq!((&event["req_kind"], &event["req_depth"]), (&200.into(), &(-5).into()));
        }
        run.is_complete();
    }
}

fn parameters_that_cannot_be_read_are_refused_with_the_reason() {
    let program = Program::of(SOURCE, &["-g"]);
    let plain = Program::of(SOURCE, &[]);
    for (program, kind, name, why) in [
        (&program, "uprobe", "handle(pth)", "has no parameter 'pth'; did you mean 'path'?"),
        (&program, "uprobe", "handle(ratio)", "'ratio' is a floating-point number"),
        (&program, "uprobe", "handle(ratio)", "which a probe cannot read"),
        (&program, "uprobe", "handle(+0(%si):ustring)", "handle(NAME) or handle(arg1.text): per"),
        (&plain, "uprobe", "handle(arg9)", "'arg9' is not a register, arg1 to arg6 or arg1.text"),
        (&program, "uprobe", "handle(req.ownr)", "has no member 'ownr'; did you mean 'owner'?"),
        (&program, "uprobe", "handle(req.low)", "is a bit field"),
        (&program, "uprobe", "handle(req.owner.id.x)", "has no member 'x': it is not a structure"),
        (&program, "uprobe", "by_value(pair)", "is a structure or has another type"),
        (&program, "uprobe", "by_value(last)", "follows a structure, so its register is not known"),
        (&program, "uprobe", "make(first)", "a function that returns a structure"),
        (&program, "uprobe", "handle+0x1(fd)", "only a FUNCTION by its name has parameters"),
        (&program, "uretprobe", "handle(fd)", "'fd': a return has no parameters, only retval"),
        (&plain, "uretprobe", "handle(retval.id)", "its type is not known; use retval.text"),
        (&plain, "uprobe", "handle(fd)", "has no debug information for this function"),
    ] {
        let selector = program.function(kind, name);
        let run = program.watched(&["trace", "-e", &selector], 1, 0);
        assert!(run.stderr.contains(why), "{selector}: {}", run.stderr);
        assert!(run.code.is_some_and(|code| code != 0) && run.objects.is_empty(), "{selector}");
    }
    let words = ["list", "-v", &program.function("uprobe", "handle")];
    let out = Command::new(env!("CARGO_BIN_EXE_perilune")).args(words).output().expect("it runs");
    let text = String::from_utf8(out.stdout).expect("text");
    for part in ["fd", "color", "path is omitted: it is text; write handle(path) to read it"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

/// `chain N`: calls each method N times.
const METHODS: &str = r#"
#include <cstdlib>
struct Base { long before = 1; int kept = 5; };
struct Foo : Base {
    int value = 9;
    __attribute__((noipa)) int meth(int a, char const *text) { return value + a + text[0]; }
    __attribute__((noipa)) int twice(int a) { return value + a; }
    __attribute__((noipa)) int twice(long a) { return value - (int)a; }
};
int main(int argc, char **argv) {
    Foo foo;
    for (int i = 0, n = atoi(argv[1]); i < n; i++) {
        foo.meth(i, "text");
        foo.twice(i);
        foo.twice(-1L - i);
    }
    return 0;
}
"#;

fn a_function_of_cpp_has_the_name_that_stacks_show() {
    let program = Program::of("int main(void) { return 0; }", &[]);
    let source = std::path::Path::new(&program.path()).with_extension("cc");
    std::fs::write(source, METHODS).expect("it can be written");
    program.run(Command::new("g++").args(["-g", "-O0", "-o", "chain", "chain.cc"]));
    for (name, field) in [
        ("Foo::meth", "a"),
        ("Foo::meth(int, char const*)", "a"),
        ("Foo::meth(a, this.value)", "a"),
        ("_ZN3Foo4methEiPKc", "a"),
        ("Foo::twice(int)", "a"),
    ] {
        let event = program.function("uprobe", name);
        let run = program.watched(&["trace", "-e", &event], N, 0);
        let n = i128::from(N);
        assert_eq!(run.of("event").count() as i128, n, "{name}: {}", run.stderr);
        assert_eq!(sum(&run, field), n * (n - 1) / 2, "{name}");
        run.is_complete();
    }
    let event = program.function("uprobe", "Foo::meth(this.kept, this.value)");
    let run = program.watched(&["trace", "-e", &event], N, 0);
    assert_eq!(
        (sum(&run, "this_kept"), sum(&run, "this_value")),
        (5 * i128::from(N), 9 * i128::from(N))
    );
    let event = program.function("uprobe", "Foo::twice");
    let run = program.watched(&["trace", "-e", &event], 1, 0);
    let why = "has 2 functions of this name; write the symbol of one: _ZN3Foo5twiceE";
    assert!(run.stderr.contains(why), "{}", run.stderr);
}

/// Opens a file N times, by the path that the kernel gets.
const OPENS: &str = r#"
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv) {
    for (long i = 0, n = atol(argv[1]); i < n; i++) {
        int fd = open("/proc/self/status", O_RDONLY);
        char byte;
        if (read(fd, &byte, 1) != 1) return 1;
        close(fd);
    }
    return 0;
}
"#;

fn parameters_of_a_kernel_function_are_read_by_the_kernels_types() {
    const N: usize = 50;
    if !std::path::Path::new("/sys/bus/event_source/devices/kprobe").exists() {
        skip_anywhere("this kernel has no kprobes");
    }
    let program = Program::of(OPENS, &[]);
    let event = "kprobe:vfs_read(count, file.f_path.dentry.d_name.name)";
    let run = program.watched(&["trace", "-e", event], N as u32, 0);
    let of = |event: &&serde_json::Value| event["file_f_path_dentry_d_name_name"] == "status";
    let read: Vec<_> = run.of("event").filter(of).collect();
    assert_eq!(read.len(), N, "{}", run.stderr);
    assert!(read.iter().all(|event| event["count"] == 1));
    for (name, why) in [
        ("vfs_read(cuont)", "has no parameter 'cuont'; did you mean 'count'?"),
        ("vfs_read(file.nothing)", "has no member 'nothing'"),
        ("vfs_read+4(count)", "only a FUNCTION without an offset has parameters"),
    ] {
        let run = program.watched(&["trace", "-e", &format!("kprobe:{name}")], 1, 0);
        assert!(run.stderr.contains(why), "{name}: {}", run.stderr);
    }
}
