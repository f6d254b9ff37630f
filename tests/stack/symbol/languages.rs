//! Names of each language, for each way to link.

use super::CHAIN;
use super::programs::{CHAIN as SOURCE, Program};
use super::stacks::Watched;
use crate::live::live_tests;

live_tests! {
    symbols_are_found_for_every_way_of_linking,
    names_of_cpp_are_readable,
    names_of_rust_are_readable_in_both_manglings,
    lines_and_inlined_functions_are_shown_on_request,
}

const CPP: &str = r"
namespace outer {
    template <typename T> struct Widget {
        __attribute__((noinline)) long three(T x, const char *) { return ask() + x; }
    };
    __attribute__((noinline)) static long two(int x) { return Widget<int>().three(x, 0) + 1; }
}
__attribute__((noinline)) long one(double) { return outer::two(1) + 1; }
int main() {
    for (int i = 0; i < 10; i++) one(1.0);
}
";

const RUST: &str = r#"
mod inner {
    pub struct Thing<T>(pub T);
    impl<T> Thing<T> {
        #[inline(never)]
        pub fn three(&self) -> i64 {
            let got: i64;
            #[cfg(target_arch = "x86_64")]
            unsafe { std::arch::asm!("syscall", inout("rax") 110i64 => got, out("rcx") _, out("r11") _) }
            #[cfg(target_arch = "aarch64")]
            unsafe { std::arch::asm!("svc 0", in("x8") 173i64, out("x0") got) }
            got + 1
        }
    }
    #[inline(never)]
    pub fn two() -> i64 {
        Thing(5u8).three() + 1
    }
}
#[inline(never)]
fn one() -> i64 {
    std::hint::black_box(inner::two()) + 1
}
fn main() {
    for _ in 0..10 {
        std::hint::black_box(one());
    }
}
"#;

fn symbols_are_found_for_every_way_of_linking() {
    for flags in [&["-pie", "-fPIE"][..], &["-no-pie"], &["-static"], &["-Wl,-z,noseparate-code"]] {
        let program = Program::c(SOURCE, flags);
        Watched::run(&[], &[program.path()]).is_only(&CHAIN, 10);
    }
}

fn names_of_cpp_are_readable() {
    let program = Program::cpp(CPP, &[]);
    let names =
        ["outer::Widget<int>::three(int, char const*)", "outer::two(int)", "one(double)", "main"];
    Watched::run(&[], &[program.path()]).is_only(&names, 10);
}

fn names_of_rust_are_readable_in_both_manglings() {
    let legacy = Program::rust(RUST, &[]);
    let names = ["chain::inner::Thing<T>::three", "chain::inner::two", "chain::one", "chain::main"];
    Watched::run(&[], &[legacy.path()]).is_only(&names, 10);
    let v0 = Program::rust(RUST, &["-Csymbol-mangling-version=v0"]);
    let names =
        ["<chain::inner::Thing<u8>>::three", "chain::inner::two", "chain::one", "chain::main"];
    Watched::run(&[], &[v0.path()]).is_only(&names, 10);
}

fn lines_and_inlined_functions_are_shown_on_request() {
    let source = r"
__attribute__((noinline)) long three(void) { return ask() + 1; }
static inline __attribute__((always_inline)) long two(void) {
    return three() + 1;
}
__attribute__((noinline)) long one(void) {
    return two() + 1;
}
int main(void) { for (int i = 0; i < 10; i++) one(); }
";
    let program = Program::c(source, &["-g"]);
    let short = Watched::run(&[], &[program.path()]);
    short.is_only(&["three", "one", "main"], 10);
    let long = Watched::run(&["--lines"], &[program.path()]);
    // The address of a system call's frame is the next instruction, which is not in the inlined
    // code.
    long.is_only(&["three", "two", "one", "main"], 10);
    let source = std::fs::read_to_string(program.directory().join("chain.c")).unwrap();
    let line = |text: &str| source.lines().position(|line| line.contains(text)).unwrap() + 1;
    let stack = &long.stacks[0];
    assert_eq!(stack[1].dso, "inlined");
    for (frame, text) in [(1, "return three()"), (2, "return two()"), (3, "int main")] {
        let expected = format!("chain.c:{}", line(text));
        assert!(stack[frame].line.ends_with(&expected), "{}", long.printed);
    }
}
