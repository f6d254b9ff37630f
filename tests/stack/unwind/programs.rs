//! Programs with known stacks: a fixed chain of functions around one system call, built with the
//! flags of a test.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Calls getppid, sleeps shortly or sends a signal to itself, without a function of the C library
/// in between.
const CALLS: &str = r#"
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
static inline __attribute__((always_inline)) long call(long number, long a, long b, long c) {
  long result;
  register long c4 __asm__("r10") = 0;
  __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(c4)
                   : "rcx", "r11", "memory");
  return result;
}
#else
static inline __attribute__((always_inline)) long call(long number, long a, long b, long c) {
  register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
  return x0;
}
#endif
#define KEPT __attribute__((noinline, noclone))
#define LOCALS(n) volatile char locals[n]; locals[0] = 1
"#;

/// `leaf` calls the kernel; `main`, `alpha`, `bravo`, `charlie` lead there, each with a frame of
/// another size.
pub(crate) const CHAIN: &str = r#"
KEPT long leaf(long n) { LOCALS(40); return call(SYS_getppid, 0, 0, 0) + locals[0] + n; }
KEPT long charlie(long n) { LOCALS(100); return leaf(n + 1) + locals[0]; }
KEPT long bravo(long n) { LOCALS(300); return charlie(n + 1) + locals[0]; }
KEPT long alpha(long n) { return bravo(n + 1) + 1; }
int main(void) { long sum = 0; for (int i = 0; i < 3; i++) sum += alpha(i); return sum == 0; }
"#;

/// The same chain, with a sleep.
pub(crate) const SLEEPER: &str = r#"
KEPT long leaf(long n) {
  struct timespec time = {0, 1000000};
  return call(SYS_nanosleep, (long)&time, 0, 0) + n;
}
KEPT long bravo(long n) { LOCALS(300); return leaf(n + 1) + locals[0]; }
int main(void) { long sum = 0; for (int i = 0; i < 3; i++) sum += bravo(i); return sum == 0; }
"#;

/// 300 calls of `deep` that have not returned.
pub(crate) const DEEP: &str = r#"
KEPT long deep(long n) {
  LOCALS(64);
  return n == 1 ? call(SYS_getppid, 0, 0, 0) : deep(n - 1) + locals[0];
}
int main(void) { return deep(300) == 0; }
"#;

/// `handler` interrupts `bravo`.
pub(crate) const SIGNAL: &str = r#"
KEPT void leaf(void) { LOCALS(40); call(SYS_getppid, locals[0], 0, 0); locals[1] = 2; }
KEPT void handler(int number) { LOCALS(80); leaf(); locals[1] = number; }
KEPT long bravo(long n) { LOCALS(300); return call(SYS_kill, call(SYS_getpid, 0, 0, 0), SIGUSR1, 0) + locals[0] + n; }
KEPT long alpha(long n) { return bravo(n + 1) + 1; }
int main(void) { signal(SIGUSR1, handler); return alpha(1) == 0; }
"#;

/// `handler` interrupts `bravo` at its first instruction, which follows another function.
pub(crate) const SIGNAL_AT_ENTRY: &str = r#"
#ifdef __x86_64__
#define UNDEFINED "ud2"
#else
#define UNDEFINED "udf #0"
#endif
__asm__(".text\n.type before, %function\nbefore: .cfi_startproc\nret\n.cfi_endproc\n.size before, . - before\n"
        ".globl bravo\n.type bravo, %function\nbravo: .cfi_startproc\n" UNDEFINED "\nret\n.cfi_endproc\n"
        ".size bravo, . - bravo\n");
long bravo(long n);
KEPT void leaf(void) { LOCALS(40); call(SYS_getppid, locals[0], 0, 0); locals[1] = 2; }
KEPT void handler(int number) { LOCALS(80); leaf(); _exit(locals[0] == 2); }
KEPT long alpha(long n) { return bravo(n + 1) + 1; }
int main(void) { signal(SIGILL, handler); return alpha(1) == 0; }
"#;

/// Calls clock_gettime for a third of a second, mostly in the vdso.
pub(crate) const CLOCK: &str = r#"
KEPT long bravo(long n) {
  LOCALS(300);
  struct timespec first, now;
  clock_gettime(CLOCK_MONOTONIC, &first);
  do { for (int i = 0; i < 1000; i++) clock_gettime(CLOCK_MONOTONIC, &now); }
  while ((now.tv_sec - first.tv_sec) * 1000000000L + now.tv_nsec - first.tv_nsec < 333000000L);
  return n + locals[0];
}
int main(void) { return bravo(1) == 0; }
"#;

/// The chain in a thread.
pub(crate) const THREAD: &str = r#"
#include <pthread.h>
KEPT long leaf(long n) { LOCALS(40); return call(SYS_getppid, 0, 0, 0) + locals[0] + n; }
KEPT long bravo(long n) { LOCALS(300); return leaf(n + 1) + locals[0]; }
KEPT void *work(void *given) { return (void *)(bravo((long)given) + 1); }
int main(void) { pthread_t thread; pthread_create(&thread, 0, work, 0); return pthread_join(thread, 0); }
"#;

/// Methods, a template, and a frame through which an exception could unwind.
pub(crate) const CPP: &str = r#"
#include <string>
#include <vector>
namespace shop {
struct Till {
  virtual ~Till() {}
  virtual KEPT long leaf(long n) { LOCALS(40); return call(SYS_getppid, 0, 0, 0) + locals[0] + n; }
};
template <typename T> KEPT long charlie(Till &till, T n) {
  std::vector<T> held(20, n);
  return till.leaf(held[3]) + held[2];
}
KEPT long bravo(Till &till, long n) {
  std::string held(100, 'x');
  try { return charlie<long>(till, n) + held[1]; } catch (...) { return 0; }
}
}
int main() { shop::Till till; long sum = 0; for (int i = 0; i < 3; i++) sum += shop::bravo(till, i); return sum == 0; }
"#;

/// Functions, a closure and a boxed trait object.
pub(crate) const RUST: &str = r#"
use std::hint::black_box;
unsafe extern "C" { fn getppid() -> i32; }
trait Walk { fn charlie(&self, n: i64) -> i64; }
struct Walker([i64; 30]);
impl Walk for Walker {
    #[inline(never)]
    fn charlie(&self, n: i64) -> i64 { black_box(leaf(n + self.0[3])) + 1 }
}
#[inline(never)]
fn leaf(n: i64) -> i64 { let held = black_box([n; 10]); i64::from(unsafe { getppid() }) + black_box(held)[3] }
#[inline(never)]
fn bravo(walk: &dyn Walk, n: i64) -> i64 { black_box(walk.charlie(n)) + 1 }
#[inline(never)]
fn alpha(n: i64) -> i64 { let walker: Box<dyn Walk> = Box::new(Walker([n; 30])); black_box(bravo(&*walker, n)) + 1 }
fn main() { let sum: i64 = (0..3).map(|n| black_box(alpha(n))).sum(); black_box(sum); }
"#;

/// A compiled program, removed with its folder on drop.
pub(crate) struct Built {
    _folder: tempfile::TempDir,
    pub(crate) path: PathBuf,
}

/// Compiler flags for code without frame pointers.
pub(crate) const WITHOUT_FRAME_POINTERS: [&str; 3] =
    ["-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls"];

/// Compiler flags for code with frame pointers.
pub(crate) const WITH_FRAME_POINTERS: [&str; 3] =
    ["-O2", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls"];

/// Compiles a C program.
pub(crate) fn c(source: &str, flags: &[&str]) -> Built {
    build("gcc", "chain.c", &format!("{CALLS}{source}"), &[flags, &["-pthread"]].concat())
}

/// Compiles a C++ program.
pub(crate) fn cpp(source: &str, flags: &[&str]) -> Built {
    build("g++", "chain.cc", &format!("{CALLS}{source}"), flags)
}

/// Compiles a Rust program.
pub(crate) fn rust(source: &str, flags: &[&str]) -> Built {
    build("rustc", "chain.rs", source, flags)
}

fn build(compiler: &str, name: &str, source: &str, flags: &[&str]) -> Built {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let (file, path) = (folder.path().join(name), folder.path().join("chain"));
    std::fs::write(&file, source).expect("the source can be written");
    let mut command = Command::new(compiler);
    let output = command.args(flags).arg("-o").args([path.as_path(), Path::new(&file)]).output();
    let output = output.unwrap_or_else(|why| panic!("{compiler} does not run: {why}"));
    assert!(output.status.success(), "{compiler}: {}", String::from_utf8_lossy(&output.stderr));
    Built { _folder: folder, path }
}
