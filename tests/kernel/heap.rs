//! malloc: the live memory is what a program did not free.

use crate::functions::Program;
use crate::live::live_tests;
use crate::tool::Run;

live_tests! {
    memory_that_is_not_freed_is_live,
    each_call_chain_has_its_own_memory,
}

/// `chain LEAKS PAIRS`: allocates LEAKS times 1000 bytes and keeps them, then PAIRS times calls
/// calloc, realloc and free.
const SOURCE: &str = r#"
#include <stdlib.h>
#define PLAIN __attribute__((noipa))
static void *kept[10000];
PLAIN void leaky(int n) { for (int i = 0; i < n; i++) kept[i] = malloc(1000); }
PLAIN void clean(int n) {
    for (int i = 0; i < n; i++) {
        void *p = calloc(10, 50);
        p = realloc(p, 2000);
        free(p);
    }
    free(NULL);
}
int main(int argc, char **argv) { leaky(atoi(argv[1])); clean(atoi(argv[2])); return 0; }
"#;

/// Returns the sums of a column over the rows.
fn sum(run: &Run, column: &str, stack: &str) -> i64 {
    let rows = run.of("row").filter(|row| row["comm"] == "chain");
    let rows = rows.filter(|row| stack.is_empty() || row["stack"].to_string().contains(stack));
    rows.filter_map(|row| row[column].as_i64()).sum()
}

fn memory_that_is_not_freed_is_live() {
    let program = Program::of(SOURCE, &["-fno-builtin"]);
    let run = program.watched(&["malloc"], 37, 100);
    run.is_complete();
    let of = |column| sum(&run, column, "");
    assert_eq!((of("live"), of("live_bytes")), (37, 37_000), "{:?}", run.objects);
    assert_eq!((of("calls"), of("bytes")), (237, 287_000), "{:?}", run.objects);
}

fn each_call_chain_has_its_own_memory() {
    let program = Program::of(SOURCE, &["-fno-builtin"]);
    let run = program.watched(&["malloc", "-g"], 5, 7);
    run.is_complete();
    let of = |column, stack| sum(&run, column, stack);
    assert_eq!((of("live_bytes", "leaky"), of("calls", "leaky")), (5000, 5), "{:?}", run.objects);
    assert_eq!((of("live_bytes", "clean"), of("calls", "clean")), (0, 14), "{:?}", run.objects);
}
