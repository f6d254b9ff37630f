#!/usr/bin/env python3
"""Runs four monitors in one session for a long time; prints cost per event and memory each minute.

Usage: benches/soak.py [MINUTES] [EVENTS_PER_SECOND]      (default 60 300000)
Run it as root, after cargo build --release.

The load makes system calls at that rate, and starts, renames and ends about 300 tasks per second.
Memory and the cost per event must stay constant after the first minutes: compare the last rows with
the first.
"""
import os, re, signal, subprocess, sys, tempfile, threading, time

LOAD = r"""
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec / 1e9;
}
int main(int argc, char **argv) {              /* load SECONDS CALLS_PER_SECOND */
  double end = now() + atof(argv[1]), rate = atof(argv[2]), due = now();
  unsigned tasks = 0, tick = 0;
  while (now() < end) {
    for (int i = 0; i < rate / 1000; i++) syscall(SYS_getppid);
    if (tick++ % 10 < 3) {
      pid_t pid = fork();
      if (pid == 0) {
        char name[16];
        snprintf(name, sizeof name, "soak-%u", tasks % 100003);
        prctl(PR_SET_NAME, name);
        for (int i = 0; i < 20; i++) syscall(SYS_getppid);
        _exit(0);
      }
      if (pid > 0) tasks++;
      while (waitpid(-1, 0, WNOHANG) > 0) { }
    }
    due += 0.001;
    double wait = due - now();
    if (wait > 0) usleep(wait * 1e6); else due = now();
  }
  while (wait(0) > 0) { }
  fprintf(stderr, "%u tasks\n", tasks);
}
"""
MONITORS = ["task-state", "syscalls", "rundelay", "signal"]


def cpu_seconds(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_kb(pid):
    # Without pages of files, which the kernel can reclaim: running programs are mapped to resolve
    # symbols.
    return int(re.search(r"RssAnon:\s+(\d+)", open(f"/proc/{pid}/status").read())[1])


def main():
    minutes = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    rate = int(sys.argv[2]) if len(sys.argv) > 2 else 300_000
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    perilune = os.environ.get("PERILUNE", f"{root}/target/release/perilune")
    with tempfile.TemporaryDirectory() as scratch:
        with open(f"{scratch}/load.c", "w") as source:
            source.write(LOAD)
        subprocess.run(["cc", "-O2", "-o", f"{scratch}/load", f"{scratch}/load.c"], check=True)
        session = subprocess.Popen(
            [perilune, "repl"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        # Enter, exit and scheduler events: about two events per call.
        load = subprocess.Popen([f"{scratch}/load", str(minutes * 60 + 30), str(rate / 2.2)])
        lines = []
        reader = threading.Thread(target=lambda: lines.extend(session.stdout), daemon=True)
        reader.start()

        def send(line):
            session.stdin.write(line + "\n")
            session.stdin.flush()

        def events():
            """Returns the number of events of all monitors so far, as printed by `:cost`."""
            begin = len(lines)
            send(":cost")
            for _ in range(600):
                time.sleep(0.1)
                rows = [re.match(r"(\S+:\S+)\s+(\d+)\s", line) for line in lines[begin:]]
                count = sum(int(row[2]) for row in rows if row)
                if count and any("kernel" in line and "measured" in line for line in lines[begin:]):
                    return count
            sys.exit("the session did not answer")

        try:
            for monitor in MONITORS:
                send(f'run("{monitor}", {{ interval = 10000 }})')
            send('run "5s"')
            seen, spent = events(), cpu_seconds(session.pid)
            print(f"{'minute':>6} {'events/s':>10} {'ns/event':>9} {'anon KB':>8}", flush=True)
            for minute in range(1, minutes + 1):
                begun = time.monotonic()
                send('run "58s"')
                now_seen = events()
                now_spent, took = cpu_seconds(session.pid), time.monotonic() - begun
                count = max(now_seen - seen, 1)
                cost = (now_spent - spent) / count * 1e9
                print(
                    f"{minute:6} {count / took:10.0f} {cost:9.1f} {memory_kb(session.pid):8}",
                    flush=True,
                )
                seen, spent = now_seen, now_spent
                del lines[:]
            send(":lost")
            session.stdin.close()
            session.wait(60)
            print("".join(lines[-5:]))
        finally:
            for process in (load, session):
                if process.poll() is None:
                    process.send_signal(signal.SIGTERM)
                    process.wait(60)


main()
