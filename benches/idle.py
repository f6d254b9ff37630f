#!/usr/bin/env python3
"""Measures what a run costs on a machine that does little.

    benches/idle.py [SECONDS] [ARGUMENT…]     a monitor and its options; all of MONITORS without them

Prints the CPU time of the process (/proc/PID/task/*/schedstat) as percent of one CPU, and how often
it was woken, after three seconds for the start. Needs root and target/release/perilune, or another
binary in $PERILUNE. The machine's own load is printed, too: the figures hold for an idle one.
"""

import os
import signal
import subprocess
import sys
import time

# The most that a monitor may cost, in percent of a CPU.
MONITORS = {
    "watchdog": 0.2,
    "irq-off": 0.2,
    "percpu-stat -i 1000": 0.3,
    "cpu-util -i 1000": 0.3,
}
BINARY = os.environ.get("PERILUNE", "target/release/perilune")


def read(path):
    with open(path) as file:
        return file.read()


def used(pid):
    """Returns the nanoseconds of CPU time, and how often the process slept."""
    ns, slept = 0, 0
    for tid in os.listdir(f"/proc/{pid}/task"):
        of = f"/proc/{pid}/task/{tid}"
        ns += int(read(f"{of}/schedstat").split()[0])
        switches = [l for l in read(f"{of}/status").splitlines() if l.startswith("voluntary")]
        slept += int(switches[0].split()[1])
    return ns, slept


def busy():
    """Returns the ticks in which the machine was busy, and all ticks."""
    user, nice, system, idle, iowait, *rest = map(int, read("/proc/stat").split()[1:9])
    return user + nice + system + sum(rest), user + nice + system + idle + iowait + sum(rest)


def measure(words, seconds):
    """Runs the monitor, and returns its cost as a share of a CPU."""
    null = subprocess.DEVNULL
    run = subprocess.Popen([BINARY] + words, stdin=null, stdout=null, stderr=null)
    time.sleep(3)
    before, since, load = used(run.pid), time.monotonic(), busy()
    time.sleep(seconds)
    after, passed, loaded = used(run.pid), time.monotonic() - since, busy()
    run.send_signal(signal.SIGINT)
    run.wait()
    share = (after[0] - before[0]) / 1e9 / passed
    machine = (loaded[0] - load[0]) / max(1, loaded[1] - load[1])
    wakes = (after[1] - before[1]) / passed
    print(f"{' '.join(words):24} {share:8.3%} of a CPU, woken {wakes:5.1f} times/s;"
          f" the machine was {machine:.0%} busy", flush=True)
    return share


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60
    if len(sys.argv) > 2:
        measure(sys.argv[2:], seconds)
        return 0
    over = [words for words, most in MONITORS.items()
            if measure(words.split(), seconds) * 100 > most]
    for words in over:
        print(f"{words}: more than {MONITORS[words]} % of a CPU")
    return 1 if over else 0


sys.exit(main())
