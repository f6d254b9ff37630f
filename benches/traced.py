#!/usr/bin/env python3
"""Prints what tracing costs the traced task: its CPU time per getppid call, above that of an
untraced loop. The tools take turns, so that a change of the machine's speed affects all of them.
Run as root on a quiet machine, after `cargo build --release`; needs a C compiler, and bpftrace for
its rows. With PERILUNE_OLD, the rows of records are measured with that binary, too."""

import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
PERILUNE = os.environ.get("PERILUNE", os.path.join(ROOT, "target/release/perilune"))
TURNS = int(os.environ.get("TURNS", "5"))
CALLS = int(os.environ.get("CALLS", "3000000"))

LOOP = r"""
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int main(int argc, char **argv) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(0, &cpus);
  sched_setaffinity(0, sizeof cpus, &cpus);
  long calls = atol(argv[1]);
  struct timespec a, b;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
  for (long i = 0; i < calls; i++) syscall(SYS_getppid);
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
  printf("%.1f\n", ((b.tv_sec - a.tv_sec) * 1e9 + b.tv_nsec - a.tv_nsec) / calls);
}
"""

TOP = [PERILUNE, "top", "-e", "raw_syscalls:sys_enter", "-b", "-o", "/dev/null"]
HANDLER = """local m = monitor { summary = "calls by number", every = "1s" }
function m.init()
  local rows = kv { "nr", sums = { "calls" } }
  evsel("raw_syscalls:sys_enter", function(e) rows:add(e.id, 1) end)
end
return m
"""
# The same with times.
TIMED = HANDLER.replace("rows:add(e.id, 1)", "rows:add(e.id, e._time > 0 and 1 or 2)")
REJECTED = TOP[:3] + ["raw_syscalls:sys_enter/id == 1000/"] + TOP[4:]
STACKS = [PERILUNE, "stackcount", "-e", "raw_syscalls:sys_enter", "-o", "/dev/null"]
KERNEL_STACKS = STACKS + ["--kernel-callchain"]
SYSCALLS = [PERILUNE, "syscalls", "-o", "/dev/null"]
COUNT = "tracepoint:raw_syscalls:sys_enter { @[tid] = count(); }"
REJECT = "tracepoint:raw_syscalls:sys_enter /args->id == 1000/ { @[tid] = count(); }"
STACK = "tracepoint:raw_syscalls:sys_enter { @[kstack] = count(); }"
BOTH_STACKS = "tracepoint:raw_syscalls:sys_enter { @[kstack, ustack, pid] = count(); }"
PAIR = ("tracepoint:raw_syscalls:sys_enter { @s[tid] = nsecs; } "
        "tracepoint:raw_syscalls:sys_exit /@s[tid]/ "
        "{ @[args->id] = hist(nsecs - @s[tid]); delete(@s[tid]); }")
ROWS = [
    ("untraced", None),
    ("top --where user", TOP + ["--where", "user"]),
    ("top --where kernel", TOP + ["--where", "kernel"]),
    ("rejected, --where user", REJECTED + ["--where", "user"]),
    ("rejected, --where kernel", REJECTED + ["--where", "kernel"]),
    ("stackcount --where user", STACKS + ["--where", "user"]),
    ("stackcount --where kernel", STACKS + ["--where", "kernel"]),
    ("kernel stacks --where user", KERNEL_STACKS + ["--where", "user"]),
    ("kernel stacks --where kernel", KERNEL_STACKS + ["--where", "kernel"]),
    ("syscalls --where user", SYSCALLS + ["--where", "user"]),
    ("syscalls --where kernel", SYSCALLS + ["--where", "kernel"]),
    ("syscalls --than, user", SYSCALLS + ["--than", "1s", "--where", "user"]),
    ("syscalls --than, kernel", SYSCALLS + ["--than", "1s", "--where", "kernel"]),
]
OLD = os.environ.get("PERILUNE_OLD")
if OLD:
    ROWS.insert(2, ("top --where user, old", [OLD] + ROWS[1][1][1:]))
if shutil.which("bpftrace"):
    ROWS += [("bpftrace count", ["bpftrace", "-e", COUNT]),
             ("bpftrace, rejected", ["bpftrace", "-e", REJECT]),
             ("bpftrace kernel stacks", ["bpftrace", "-e", STACK]),
             ("bpftrace both stacks", ["bpftrace", "-e", BOTH_STACKS]),
             ("bpftrace enter/exit hist", ["bpftrace", "-e", PAIR])]
# Names of rows, or the beginnings of them.
if len(sys.argv) > 1:
    ROWS = ROWS[:1] + [row for row in ROWS[1:] if row[0].startswith(tuple(sys.argv[1:]))]


def cost(loop, command):
    """Returns the nanoseconds of CPU time per call while the command runs."""
    tool = None
    if command:
        tool = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(2.5)
        if tool.poll() is not None:
            sys.exit(f"{' '.join(command)}: ended with {tool.returncode}")
    result = subprocess.run([loop, str(CALLS)], stdout=subprocess.PIPE, check=True)
    if tool:
        tool.send_signal(signal.SIGINT)
        tool.wait()
    return float(result.stdout)


def scripts(folder):
    """Returns the rows of a script of one's own, without times and with them."""
    rows = []
    for name, text in (("handler", HANDLER), ("handler, reads _time", TIMED)):
        path = os.path.join(folder, f"calls{len(rows)}.lua")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        for suffix, tool in (("", PERILUNE), (", old", OLD)):
            if tool:
                rows.append((name + suffix, [tool, path, "-b", "-o", "/dev/null"]))
    return rows


def main():
    with tempfile.TemporaryDirectory() as folder:
        source, loop = os.path.join(folder, "loop.c"), os.path.join(folder, "loop")
        with open(source, "w", encoding="utf-8") as file:
            file.write(LOOP)
        subprocess.run(["cc", "-O2", "-o", loop, source], check=True)
        rows = ROWS + scripts(folder)
        costs = {name: [] for name, _ in rows}
        for _ in range(TURNS):
            for name, command in rows:
                costs[name].append(cost(loop, command))
    base = statistics.median(costs["untraced"])
    print(f"{'':26} {'ns/call':>8} {'above':>8}   least and most above, {TURNS} turns")
    for name, all_of in costs.items():
        middle = statistics.median(all_of)
        print(f"{name:26} {middle:8.1f} {middle - base:8.1f}"
              f"   {min(all_of) - base:.0f} to {max(all_of) - base:.0f}")


main()
