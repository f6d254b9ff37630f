#!/usr/bin/env python3
"""Prints what scrapes cost a run: events, losses and own CPU time per event of
`perilune syscalls --prometheus` under a load, without scrapers, with some that scrape without a
pause, and with as many as the server accepts that never read their answer.

    benches/scrapes.py [PERILUNE] [SECONDS]

Run it as root with a release build on a quiet machine; it needs a C compiler. The scrapers use a CPU
of their own if there is one. Compare the rows of one run with each other.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

PERILUNE = sys.argv[1] if len(sys.argv) > 1 else "target/release/perilune"
SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 5
# A burst of calls, then a pause: about as many per second as a busy server makes.
LOAD = """
#include <sys/syscall.h>
#include <unistd.h>
int main(void) {
  for (;;) {
    for (int i = 0; i < 2000; i++) syscall(SYS_getppid);
    usleep(5000);
  }
}
"""


def request(port):
    connection = socket.create_connection(("127.0.0.1", port))
    connection.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
    return connection


def scrape(port, state):
    """Scrapes without a pause."""
    while not state["over"]:
        begun = time.perf_counter()
        with request(port) as connection:
            size = 0
            while part := connection.recv(1 << 16):
                size += len(part)
        state["scrapes"].append((time.perf_counter() - begun, size))


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def run(label, load, fast, slow):
    port, state = free_port(), {"over": False, "scrapes": []}
    command = [PERILUNE, "syscalls", "--prometheus", str(port), "-i", "200", "--json", "--stats"]
    monitor = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while "watching" not in monitor.stderr.readline():
        pass
    process = subprocess.Popen([load])
    threads = [threading.Thread(target=scrape, args=(port, state)) for _ in range(fast)]
    stuck = [request(port) for _ in range(slow)]
    for thread in threads:
        thread.start()
    output = []
    reader = threading.Thread(target=lambda: output.extend(monitor.stdout))
    reader.start()
    time.sleep(SECONDS)
    state["over"] = True
    for thread in threads:
        thread.join()
    process.kill()
    process.wait()
    monitor.send_signal(signal.SIGINT)
    reader.join()
    monitor.wait()
    for connection in stuck:
        connection.close()
    objects = [json.loads(line) for line in output]
    coverage = next(one for one in objects if one["type"] == "coverage" and one["final"])
    stats = next(one for one in objects if one["type"] == "stats")
    times = sorted(seconds for seconds, _ in state["scrapes"])
    middle = f"{times[len(times) // 2] * 1e3:.1f}" if times else "-"
    each = stats["ns_per_event"] or 0
    print(
        f"{label:24} {coverage['events']:10} {coverage['lost']:6} {each:9.0f} "
        f"{len(times):8} {middle:>10}"
    )


def main():
    with tempfile.TemporaryDirectory() as folder:
        load = os.path.join(folder, "load")
        subprocess.run(["cc", "-O2", "-x", "c", "-o", load, "-"], input=LOAD, text=True, check=True)
        print(f"{'':24} {'events':>10} {'lost':>6} {'ns/event':>9} {'scrapes':>8} {'median ms':>10}")
        run("no scraper", load, 0, 0)
        run("4 without a pause", load, 4, 0)
        run("40 that never read", load, 0, 40)


main()
