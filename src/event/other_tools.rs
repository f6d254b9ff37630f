//! Commands and options of perf, perf-prof, bpftrace and bcc, and their replacements.
//!
//! One table: a refused command or option gets its row as a hint, and `docs/other-tools.md` lists
//! all rows.

use std::fmt::Write as _;

/// A command, option or attribute of another tool.
pub struct OtherTool {
    /// The tool.
    pub tool: &'static str,
    /// The monitor of perilune after which it is typed; empty after any.
    pub after: &'static str,
    /// As it is typed: a command, an option, an attribute `name=`, or the prefix `kind:` of an
    /// event.
    pub typed: &'static str,
    /// The text to write instead, in Markdown.
    pub here: &'static str,
}

macro_rules! rows {
    ($($tool:literal: $($after:literal)? [$typed:literal] $here:literal;)*) => {
        &[$(OtherTool {
            tool: $tool, after: concat!("" $(, $after)?), typed: $typed, here: $here,
        }),*]
    };
}

/// All of them, by tool.
#[rustfmt::skip]
pub const OTHER_TOOLS: &[OtherTool] = rows! {
    "perf": ["record"] "`profile --flame-graph NAME`, or `trace --events -o FILE` to record events";
    "perf": ["report"] "`profile` prints the functions at the end of the run; nothing is stored";
    "perf": ["script"] "`trace -e EVENT`; a Lua file is a monitor: `perilune FILE.lua`";
    "perf": ["sched"] "`rundelay`, `task-state` and `sched-migrate`";
    "perf": ["kmem"] "`kmemprof` and `kmemleak`";
    "perf": ["kvm"] "`kvm-exit`";
    "perf": ["lock"] "`locks`";
    "perf": ["probe"]
        "name the function as an event: `-e kprobe:FUNCTION`, `-e uprobe:FILE:FUNCTION`";
    "perf": ["ftrace"] "`trace -e kprobe:FUNCTION`, or `nested` for calls inside calls";
    "perf": ["eprobe:"]
        "`SYSTEM:EVENT`, with the strings of system calls, or `tprobe:`; perf has no eprobes";
    "perf": ["rawtp:"] "`SYSTEM:EVENT`, or `tprobe:TRACEPOINT` with members of its arguments";
    "perf": ["annotate"] "`profile --lines` has source lines";
    "perf": ["c2c"] "a script reads `e._data_level`, `e._data_snoop` and `e._addr`";
    "perf": ["mem"] "a script reads `e._data_level`, `e._weight` and `e._addr`";
    "perf": "stat" ["-I"] "`-i MILLISECONDS`";
    "perf": "stat" ["--interval-print"] "`-i MILLISECONDS`";
    "perf": "stat" ["-A"] "`--perins`";
    "perf": "stat" ["--no-aggr"] "`--perins`";
    "perf": "stat" ["-d"] "name the events: `-e EVENT,…`";
    "perf": "stat" ["-r"] "run the command several times: `sh -c 'for i in 1 2 3; do …; done'`";
    "perf": "stat" ["-x"] "`--csv`";
    "perf": "stat" ["--field-separator"] "`--csv`";
    "perf": "stat" ["-j"] "`--json`";
    "perf": "stat" ["--timeout"] "`--duration TIME`";
    "perf": "stat" ["--interval-count"] "`-N N`";
    "perf": "stat" ["--per-thread"] "`--perins`, with `-p` or a command";
    "perf": "stat" ["-D"] "`--start-at TIME`";
    "perf": "stat" ["--delay"] "`--start-at TIME`";
    "perf": ["-G"] "`--cgroup PATH`";
    "perf": ["--for-each-cgroup"] "`--cgroup GLOB`";
    "perf": ["name="] "`alias=TEXT`";
    "perf": ["--sort"] "`top -k EXPRESSION`";
    "perf": ["--intr-regs"] "read `e._regs` in a script";
    "perf": ["--user-regs"] "read `e._user_regs` in a script";
    "perf": ["--branch-any"] "read `e._branches` in a script";
    "perf": ["--weight"] "read `e._weight` in a script, or `top -k _weight`";
    "perf": ["--phys-data"] "read `e._phys_addr` in a script, or `top -k _phys_addr`";
    "perf": ["--all-cgroups"] "read `e._cgroup` in a script, or `top -k _cgroup`";
    "perf": ["--overwrite"] "omit it: rings are drained all the time; `-m N` makes them larger";
    "perf-prof": ["nested-trace"] "`nested`";
    "perf-prof": ["breakpoint"] "`trace -e mem:ADDRESS`";
    "perf-prof": ["profile/OPTIONS/untraced/"]
        "the same in `-e`, for each monitor that emits events: `perilune list` shows them";
    "perf-prof": "rundelay" ["-e"]
        "omit it: the scheduler events are fixed; `--filter` selects tasks";
    "perf-prof": "rundelay" ["--event"]
        "omit it: the scheduler events are fixed; `--filter` selects tasks";
    "perf-prof": "syscalls" ["-e"] "omit it: all system calls are timed; `-p` selects processes";
    "perf-prof": "syscalls" ["--event"]
        "omit it: all system calls are timed; `-p` selects processes";
    "perf-prof": "kmemprof" ["-e"] "`--alloc EVENTS --free EVENTS`";
    "perf-prof": "kmemprof" ["--event"] "`--alloc EVENTS --free EVENTS`";
    "perf-prof": "blktrace" ["-d"] "`--device MAJ:MIN`, the numbers that `lsblk` prints";
    "perf-prof": "sched-migrate" ["--detail"]
        "`trace -e sched:sched_migrate_task` prints each migration";
    "perf-prof": "multi-trace" ["printkey="]
        "a key column of `top` has it; here, `--json` has the key as a number";
    "perf-prof": "multi-trace" ["role="] "give the events in order, one `-e` for each stage";
    "perf-prof": "multi-trace" ["--cycle"] "repeat the first event as the last: `-e A -e B -e A`";
    "perf-prof": ["uprobe:FUNCTION@FILE"] "`uprobe:FILE:FUNCTION`";
    "perf-prof": ["--lower"] "there is no upper limit; `--than TIME` prints the longer ones";
    "perf-prof": "multi-trace" ["hide<"] "`--than TIME` prints only the longer ones";
    "perf-prof": ["--ptrace"] "omit it: threads and children of -p and of a COMMAND are followed";
    "perf-prof": ["--perfeval-cpus"] "`--stats` reports the overhead";
    "perf-prof": ["--perfeval-pids"] "`--stats` reports the overhead";
    "perf-prof": ["--sampling-limit"] "`-F HZ` or `-c N` sets the rate, and `-N N` ends the run";
    "perf-prof": ["--clock-offset"] "omit it: times are those of CLOCK_MONOTONIC";
    "perf-prof": ["--tsc"] "omit it: times are those of CLOCK_MONOTONIC";
    "perf-prof": ["--tsc-offset"] "omit it: times are those of CLOCK_MONOTONIC";
    "perf-prof": ["--kvmclock"] "omit it: times are those of CLOCK_MONOTONIC";
    "perf-prof": ["--monotonic"] "omit it: times are those of CLOCK_MONOTONIC";
    "bpftrace": ["bpftrace"] "`eval CODE`; see docs/one-liners.md";
    "bpftrace": "list" ["-l"] "omit it: `list GLOB`";
    "bpftrace": ["-l"] "`perilune list GLOB`";
    "bpftrace": ["kfunc:"] "`kprobe:FUNCTION`, with its parameters by name";
    "bpftrace": ["fentry:"] "`kprobe:FUNCTION`, with its parameters by name";
    "bpftrace": ["kretfunc:"] "`fretprobe:FUNCTION`, or `kretprobe:FUNCTION` with `retval`";
    "bpftrace": ["fexit:"] "`fretprobe:FUNCTION`, or `kretprobe:FUNCTION` with `retval`";
    "bpftrace": ["watchpoint:"] "`mem:ADDRESS/LEN:rw`";
    "bpftrace": ["tracepoint:"] "`SYSTEM:EVENT`, without a prefix";
    "bpftrace": ["t:"] "`SYSTEM:EVENT`, without a prefix";
    "bpftrace": ["rawtracepoint:"]
        "`SYSTEM:EVENT`, or `tprobe:TRACEPOINT` with members of its arguments";
    "bpftrace": ["rt:"] "`SYSTEM:EVENT`, or `tprobe:TRACEPOINT` with members of its arguments";
    "bpftrace": ["k:"] "`kprobe:FUNCTION`";
    "bpftrace": ["kr:"] "`kretprobe:FUNCTION`";
    "bpftrace": ["u:"] "`uprobe:FILE:FUNCTION`";
    "bpftrace": ["ur:"] "`uretprobe:FILE:FUNCTION`";
    "bpftrace": ["software:"] "the name of the event and its period: `page-faults//period=100/`";
    "bpftrace": ["hardware:"] "the name of the event and its period: `cache-misses/period=1000/`";
    "bpftrace": ["profile:hz:"] "`cpu-clock/freq=99/`, or the monitor `profile -F 99`";
    "bpftrace": ["interval:"] "`-i MILLISECONDS`; a script has `every(\"1s\", f)`";
    "bcc": ["p:"] "`kprobe:FUNCTION` or `uprobe:FILE:FUNCTION`";
    "bcc": ["r:"] "`kretprobe:FUNCTION` or `uretprobe:FILE:FUNCTION`";
    "bcc": ["argdist"] "`num-dist -e EVENT//num=EXPRESSION/`, or `top -e EVENT -k EXPRESSION`";
    "bcc": ["biostacks"] "`stackcount -e block:block_rq_issue`";
    "bcc": ["biotop"] "`top -e block:block_rq_issue//key=comm/top-by=bytes/`";
    "bcc": ["bitesize"] "`num-dist -e block:block_rq_issue//num=bytes/key=comm/`";
    "bcc": ["cachestat"] "`cache`";
    "bcc": ["cachetop"] "`cache --files`";
    "bcc": ["capable"] "`trace -e capability:cap_capable`, since Linux 6.13";
    "bcc": ["cpuwalk"] "`profile --by cpu`";
    "bcc": ["drsnoop"] "`reclaim --than TIME`";
    "bcc": ["execsnoop"] "`execs`";
    "bcc": ["exitsnoop"] "`execs`";
    "bcc": ["filetop"] "`files`";
    "bcc": ["funcslower"] "`funclatency -e uprobe:FILE:FUNCTION --than TIME`";
    "bcc": ["gethostlatency"] "`dns`";
    "bcc": ["hardirqs"] "`irq --hard`";
    "bcc": ["killsnoop"] "`signal`";
    "bcc": ["klockstat"] "`locks --kernel`";
    "bcc": ["kvmexit"] "`kvm-exit`";
    "bcc": ["llcstat"] "`stat -e cache-references,cache-misses`";
    "bcc": ["memleak"] "`malloc`, or `kmemleak` for the kernel";
    "bcc": ["mountsnoop"] "`trace -e syscalls:sys_enter_mount,syscalls:sys_enter_umount`";
    "bcc": ["netqtop"] "`net`";
    "bcc": ["offcputime"] "`offcpu`";
    "bcc": ["offwaketime"] "`offcpu`";
    "bcc": ["oomkill"] "`oom`";
    "bcc": ["opensnoop"] "`opens`";
    "bcc": ["pidpersec"] "`stat -e sched:sched_process_fork -i 1000`";
    "bcc": ["runqlat"] "`rundelay`";
    "bcc": ["runqslower"] "`rundelay --than TIME`";
    "bcc": ["slabratetop"] "`kmemprof`";
    "bcc": ["softirqs"] "`irq --soft`";
    "bcc": ["syncsnoop"] "`fsync`";
    "bcc": ["syscount"] "`syscalls`";
    "bcc": ["tcpconnect"] "`tcp --each`";
    "bcc": ["tcpdrop"] "`tcp --drops`";
    "bcc": ["tcplife"] "`tcp --each`";
    "bcc": ["tcpretrans"] "`tcp --retransmits`";
    "bcc": ["tcprtt"] "`tcp --rtt`";
    "bcc": ["tcpstates"] "`tcp --states`";
    "bcc": ["tcptop"] "`tcp`";
    "bcc": ["tcptracer"] "`tcp --each`";
    "bcc": ["threadsnoop"] "`trace -e task:task_newtask`";
    "bcc": ["tplist"] "`list`, and `list -v EVENT` for the fields";
    "bcc": ["vfscount"] "`funccount -e 'kprobe:vfs_*'`";
    "bcc": ["vfsstat"] "`files`";
    "bcc": ["wakeuptime"] "`offcpu --wakers`";
};

/// Returns what to write instead of what is refused after this monitor, or as a monitor if
/// `after` is empty.
pub fn instead(after: &str, typed: &str) -> Option<&'static OtherTool> {
    let known = |row: &&OtherTool| {
        row.typed == typed
            && (row.after == after || row.after.is_empty())
            && row.is_command() == after.is_empty()
    };
    // The row of the monitor before that of any monitor.
    let found = OTHER_TOOLS.iter().filter(known);
    found.max_by_key(|row| row.after.len())
}

/// Returns the name of a tool of bcc or bpftrace without the suffix that it is installed with.
pub fn without_suffix(command: &str) -> &str {
    ["-bpfcc", ".bt"].iter().find_map(|end| command.strip_suffix(end)).unwrap_or(command)
}

/// Returns the end of a message about a refused command or option, or nothing.
pub fn hint(after: &str, typed: &str) -> String {
    instead(after, typed).map_or_else(String::new, OtherTool::hint)
}

/// Returns the end of a message about an attribute of an event that no monitor has, or nothing.
pub fn attribute_hint(name: &str) -> String {
    let known = |row: &&OtherTool| row.typed.strip_suffix('=') == Some(name);
    OTHER_TOOLS.iter().find(known).map_or_else(String::new, OtherTool::hint)
}

/// Returns the end of a message about an event that does not exist, or nothing.
pub fn event_hint(name: &str) -> String {
    let known = |row: &&OtherTool| row.typed.ends_with(':') && name.starts_with(row.typed);
    OTHER_TOOLS.iter().find(known).map_or_else(String::new, OtherTool::hint)
}

impl OtherTool {
    /// Returns whether it is a command, not an option, an attribute or a prefix.
    fn is_command(&self) -> bool {
        let is_other = self.typed.starts_with('-') || self.typed.ends_with([':', '=']);
        self.after.is_empty() && !is_other
    }

    fn hint(&self) -> String {
        format!("; instead of {}'s: {}", self.tool, self.here.replace('`', "'"))
    }
}

/// Returns the tables of `docs/other-tools.md`.
pub fn markdown() -> String {
    let mut out = String::new();
    let mut tool = "";
    for row in OTHER_TOOLS {
        if row.tool != tool {
            tool = row.tool;
            let _ = write!(out, "\n## {tool}\n\n| {tool} | perilune |\n|-|-|\n");
        }
        let after = if row.after.is_empty() { String::new() } else { format!("{} ", row.after) };
        let _ = writeln!(out, "| `{after}{}` | {} |", row.typed, row.here);
    }
    out
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_document_lists_every_row() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/other-tools.md");
        let text = std::fs::read_to_string(&path).unwrap();
        let begin = text.find("\n## ").unwrap();
        let expected = markdown();
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&path, format!("{}{expected}", &text[..begin])).unwrap();
        }
        assert!(text[begin..] == expected, "the tables are now:\n{expected}");
    }

    #[test]
    fn a_word_has_one_row_per_tool_and_monitor() {
        for (at, row) in OTHER_TOOLS.iter().enumerate() {
            let again =
                OTHER_TOOLS[..at].iter().find(|o| (o.after, o.typed) == (row.after, row.typed));
            assert!(again.is_none(), "{} {}", row.after, row.typed);
        }
    }

    #[test]
    fn a_command_with_the_name_of_a_monitor_is_not_listed() {
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
        for row in OTHER_TOOLS.iter().filter(|row| row.is_command()) {
            assert!(!scripts.join(format!("{}.lua", row.typed)).exists(), "{}", row.typed);
        }
    }

    #[test]
    fn a_word_of_another_monitor_has_no_hint() {
        assert_eq!(hint("", "nested-trace"), "; instead of perf-prof's: 'nested'");
        assert_eq!(hint("top", "nested-trace"), "");
        assert_eq!(hint("signal", "--cycle"), "");
        assert!(hint("signal", "--tsc").contains("CLOCK_MONOTONIC"));
        assert!(hint("multi-trace", "hide<").contains("'--than TIME'"));
        assert!(attribute_hint("role").contains("one '-e' for each stage"));
        assert_eq!(attribute_hint("rol"), "");
        assert!(event_hint("fexit:vfs_read").contains("'fretprobe:FUNCTION', or 'kret"));
        assert_eq!((&*event_hint("sched:x"), &*hint("", "fexit:")), ("", ""));
        assert!(hint("rundelay", "-e").contains("'--filter' selects tasks"));
        assert!(attribute_hint("name").contains("'alias=TEXT'"));
        assert_eq!(hint("", "name="), "");
    }

    #[test]
    fn a_tool_of_bcc_is_known_with_the_suffix_of_its_file() {
        for (typed, plain) in [
            ("execsnoop-bpfcc", "execsnoop"),
            ("execsnoop.bt", "execsnoop"),
            ("execsnoop", "execsnoop"),
            ("a.btx", "a.btx"),
        ] {
            assert_eq!(without_suffix(typed), plain);
        }
        assert_eq!(hint("", "execsnoop"), "; instead of bcc's: 'execs'");
    }
}
