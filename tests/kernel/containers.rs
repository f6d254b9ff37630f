//! container: a control group is charged for what its tasks did.

use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::process::Command;

use perilune::sys::cgroup::CgroupHierarchy;
use serde_json::Value;

use crate::cgroup::Cgroup;
use crate::functions::Program;
use crate::live::{live_tests, skip_anywhere};

live_tests! {
    a_group_is_charged_for_the_work_of_its_task,
    time_that_a_waker_accounts_is_charged_to_the_group_that_ran,
    the_kernel_counts_by_the_group_that_records_have,
    records_of_two_cpus_in_order_have_the_group_of_their_task,
}

/// Returns the places that can count by the group of a task.
fn places() -> &'static [&'static str] {
    let hierarchy = CgroupHierarchy::find().expect("a group was created");
    if hierarchy.is_version_2() { &["kernel", "user"] } else { &["user"] }
}

/// `chain GROUP PAGES`: enters the group, touches PAGES new pages, sends 50 datagrams of 100 bytes
/// to a closed port and one of 200 to itself, which it peeks at and receives, sends 10 times 1000
/// bytes through a Unix socket, sleeps 30 times and spins for 50 ms.
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
    int own = socket(AF_INET, SOCK_DGRAM, 0), pair[2];
    socklen_t size_of = sizeof to;
    to.sin_port = 0;
    if (bind(own, (void *)&to, sizeof to) || getsockname(own, (void *)&to, &size_of)) return 3;
    sendto(own, text, 200, 0, (void *)&to, sizeof to);
    for (int i = 0; i < 3; i++) recv(own, text, sizeof text, i < 2 ? MSG_PEEK : 0);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return 4;
    for (int i = 0; i < 10; i++)
        if (send(pair[0], text, 1000, 0) != recv(pair[1], text, 1000, 0)) return 5;
    for (int i = 0; i < 30; i++) usleep(1000);
    // Reading the clock updates the run time of the task, which is an event.
    for (double since = cpu(); cpu() - since < 0.05;)
        for (volatile int i = 0; i < 100000; i++) {}
    return 0;
}
"#;

fn a_group_is_charged_for_the_work_of_its_task() {
    let group = Cgroup::new("charged");
    let program = Program::of(SOURCE, &[]);
    let path = group.path.to_string_lossy().into_owned();
    for place in ["auto", "user"] {
        let options = ["container", "--groups", "-m", "1024", "-v", "--where", place];
        let run = program.with_arguments(&options, &[&path, "1500"]);
        run.is_complete();
        let text = "sched:sched_switch: counted in the kernel";
        let in_kernel = run.of("note").any(|note| note["text"] == text);
        let expected = place == "auto" && places().contains(&"kernel");
        assert_eq!(in_kernel, expected, "{:?}", run.objects);
        let of = |column: &str| run.sum(column, "cgroup", &*group.name);
        assert!((1500..1700).contains(&of("faults")), "{:?}", run.objects);
        assert!(of("switches") >= 30, "{:?}", run.objects);
        let cpu = of("cpu_ns");
        assert!((50_000_000..2_000_000_000).contains(&cpu), "{cpu} ns: {:?}", run.objects);
        if perilune::sys::machine::is_linux_since((6, 3)) {
            assert_eq!(of("net_bytes"), 50 * 100 + 200 + 200, "{:?}", run.objects);
        }
    }
}

/// `chain MS [FILE GROUP GROUP]`: one process spins on CPU 1; the first process wakes another one
/// of that CPU every 0.3 ms from CPU 0. Prints the spinning process. With groups, the spinning
/// process enters the first one, the others the second one, and FILE gets the CPU time of both.
pub(crate) const WAKES: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static long ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}
static void begin(int cpu, const char *group) {
    char path[4200];
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set)) exit(2);
    if (!group) return;
    snprintf(path, sizeof path, "%s/cgroup.procs", group);
    if (write(open(path, O_WRONLY), "0", 1) != 1) exit(3);
}
int main(int argc, char **argv) {
    const char *hogs = argc > 4 ? argv[3] : 0, *others = argc > 4 ? argv[4] : 0;
    long *used = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    long end = ns(CLOCK_MONOTONIC) + atol(argv[1]) * 1000000;
    int fd = eventfd(0, 0);
    pid_t hog = fork();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!hog) {
        begin(1, hogs);
        while (ns(CLOCK_MONOTONIC) < end) for (volatile int i = 0; i < 10000; i++) {}
        used[0] = ns(CLOCK_PROCESS_CPUTIME_ID);
        _exit(0);
    }
    if (!fork()) {
        uint64_t woken = 0;
        begin(1, others);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (woken < 1000000 && read(fd, &woken, 8) == 8) {}
        used[1] = ns(CLOCK_PROCESS_CPUTIME_ID);
        _exit(0);
    }
    begin(0, others);
    printf("%d\n", hog);
    fflush(stdout);
    for (uint64_t one = 1; ns(CLOCK_MONOTONIC) < end; usleep(300))
        if (write(fd, &one, 8) != 8) return 4;
    if (write(fd, &(uint64_t){ 1000000 }, 8) != 8) return 4;
    while (wait(0) > 0) {}
    if (argc < 3) return 0;
    FILE *file = fopen(argv[2], "w");
    fprintf(file, "%ld %ld", used[0], used[1] + ns(CLOCK_PROCESS_CPUTIME_ID));
    return fclose(file);
}
"#;

fn time_that_a_waker_accounts_is_charged_to_the_group_that_ran() {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        skip_anywhere("this machine has one CPU");
    }
    let groups = ["ran", "woke"].map(Cgroup::new);
    let program = Program::of(WAKES, &[]);
    let file = format!("{}.used", program.path());
    let [ran, woke] = groups.each_ref().map(|group| group.path.to_string_lossy().into_owned());
    let options = ["container", "--groups", "-i", "60000", "-m", "1024"];
    let path = program.path();
    let arguments = ["-c", &format!("{path} 1000 {file} {ran} {woke} > {file}.hog")];
    let run = crate::functions::watch(&options, &[&["sh"], &arguments[..]].concat());
    run.is_complete();
    let used = std::fs::read_to_string(&file).expect("the program wrote it");
    let used = used.split(' ').map(|ns| ns.parse::<u64>().expect("a number"));
    for (group, used) in groups.iter().zip(used) {
        let charged = run.sum("cpu_ns", "cgroup", &*group.name);
        // Starting, ending and the time before it enters the group are in one of the two only.
        let range = used - used / 50 - 3_000_000..used + used / 50 + 3_000_000;
        assert!(range.contains(&charged), "{charged} of {used}: {:?}", run.objects);
    }
}

/// `chain [CALLS PROCS]`: enters the group of the file PROCS, and calls getppid as often, or 2,000
/// times.
const CALLS: &str = r#"
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int calls = argc > 1 ? atoi(argv[1]) : 2000;
    if (argc > 2 && write(open(argv[2], O_WRONLY), "0", 1) != 1) return 2;
    for (int i = 0; i < calls; i++) syscall(SYS_getppid);
    return 0;
}
"#;

fn the_kernel_counts_by_the_group_that_records_have() {
    let group = Cgroup::new("counted");
    let id = std::fs::metadata(&group.path).expect("it exists").ino();
    let program = Program::of(CALLS, &[]);
    let command = group.run(&program.path());
    let keys = [
        ("_cgroup", Value::from(&*group.name)),
        ("_cgroup_id", Value::from(id)),
        ("_cgroup_id & 0 ? 0 : _cgroup_id % 7", Value::from(id % 7)),
        ("_container", Value::from("-")),
    ];
    for place in places() {
        for (key, value) in &keys {
            let event = "syscalls:sys_enter_getppid";
            let options = ["top", "-e", event, "-k", key, "--where", place, "--json", "--"];
            let run = Command::new(env!("CARGO_BIN_EXE_perilune"))
                .args(options)
                .args(["sh", "-c", &command])
                .output()
                .expect("it runs");
            let text = String::from_utf8_lossy(&run.stdout);
            let rows = text.lines().map(|line| serde_json::from_str(line).expect("JSON"));
            let rows: Vec<Value> = rows.filter(|row: &Value| row["type"] == "row").collect();
            let own = rows
                .iter()
                .find(|row| row.as_object().is_some_and(|row| row.values().any(|of| of == value)));
            let number = own.and_then(|row| row["sys_enter_getppid"].as_u64());
            let errors = String::from_utf8_lossy(&run.stderr);
            assert!(run.status.success(), "{place}, {key}: {errors}");
            // The shell calls it, too.
            let number = number.unwrap_or_default();
            assert!((2000..2010).contains(&number), "{place}, {key}: {rows:?} {errors}");
        }
    }
}

/// Counts entries by group, exits by group and result, and events whose time is before that of an
/// earlier one.
const IN_ORDER: &str = "local m = monitor { summary = 'in order', order = true }
function m.init()
  local calls, late = kv { 'id', 'result' }, kv { 'late' }
  local last = 0
  local function in_order(e)
    if e._time < last then late:add(1) end
    last = e._time
  end
  evsel('syscalls:sys_enter_getppid', function(e)
    in_order(e)
    calls:add(e._cgroup_id, 'entry')
  end)
  evsel('syscalls:sys_exit_getppid', function(e)
    in_order(e)
    calls:add(e._cgroup_id, e.ret)
  end)
end
return m
";

fn records_of_two_cpus_in_order_have_the_group_of_their_task() {
    const CALLED: u64 = 60_000;
    let groups = ["one", "two"].map(Cgroup::new);
    let program = Program::of(CALLS, &[]);
    let procs = groups.each_ref().map(|group| group.path.join("cgroup.procs"));
    let one = |procs: &PathBuf| format!("{} {CALLED} {} & ", program.path(), procs.display());
    let shell = format!("{} wait", procs.each_ref().map(one).concat());
    let ran = crate::script::run(IN_ORDER, &["-m", "4096", "--", "sh", "-c", &shell]);
    let rows: Vec<&Value> = ran.rows().collect();
    assert!(rows.iter().all(|row| row.get("late").is_none()), "{}", ran.text);
    for group in &groups {
        let id = std::fs::metadata(&group.path).expect("it exists").ino();
        let own: Vec<&&Value> = rows.iter().filter(|row| row["id"] == id).collect();
        let of = |is_entry: bool| {
            let of = own.iter().filter(|row| (row["result"] == "entry") == is_entry);
            of.filter_map(|row| row["count"].as_u64()).max()
        };
        assert_eq!((of(true), of(false)), (Some(CALLED), Some(CALLED)), "{}", ran.text);
    }
}
