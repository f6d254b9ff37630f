//! container: a control group is charged for what its tasks did.

use crate::cgroup::Cgroup;
use crate::functions::Program;
use crate::live::live_tests;

live_tests! {
    a_group_is_charged_for_the_work_of_its_task,
}

/// `chain GROUP PAGES`: enters the group, touches PAGES new pages, sends 50 datagrams of 100 bytes,
/// sleeps 30 times and spins for 50 ms.
const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
static double cpu(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}
int main(int argc, char **argv) {
    char text[4200];
    snprintf(text, sizeof text, "%s/cgroup.procs", argv[1]);
    int procs = open(text, O_WRONLY);
    if (procs < 0 || write(procs, "0", 1) != 1) return 2;
    long pages = atol(argv[2]), size = sysconf(_SC_PAGESIZE);
    char *memory = mmap(0, pages * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                        -1, 0);
    madvise(memory, pages * size, MADV_NOHUGEPAGE);
    for (long i = 0; i < pages; i++) memory[i * size] = 1;
    int s = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(9) };
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < 50; i++) sendto(s, text, 100, 0, (void *)&to, sizeof to);
    for (int i = 0; i < 30; i++) usleep(1000);
    // Reading the clock updates the run time of the task, which is an event.
    for (double since = cpu(); cpu() - since < 0.05;)
        for (volatile int i = 0; i < 100000; i++) {}
    return 0;
}
"#;

fn a_group_is_charged_for_the_work_of_its_task() {
    let group = Cgroup::new("container");
    let program = Program::of(SOURCE, &[]);
    let path = group.path.to_string_lossy().into_owned();
    let run = program.with_arguments(&["container", "--groups", "-m", "1024"], &[&path, "1500"]);
    run.is_complete();
    let of = |column: &str| run.sum(column, "cgroup", &*group.name);
    assert!((1500..1700).contains(&of("faults")), "{:?}", run.objects);
    assert!(of("switches") >= 30, "{:?}", run.objects);
    let cpu = of("cpu_ns");
    assert!((50_000_000..2_000_000_000).contains(&cpu), "{cpu} ns: {:?}", run.objects);
    if perilune::sys::machine::is_linux_since((6, 3)) {
        assert_eq!(of("net_bytes"), 50 * 100, "{:?}", run.objects);
    }
}
