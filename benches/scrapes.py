#!/usr/bin/env python3
"""Prints the cost of scrapes for a run, in two tables.

The first has events, losses and own CPU time per event of `perilune syscalls --prometheus` under a
load, without scrapers, with some that scrape without a pause, and with as many as the server
accepts that never read their answer.

The second has scrapes of a page of 10,000 series of `perilune top`, each after a new interval, so
that the page is built anew. It has the time from a request to the end of the answer, and for how
long, at most, the run's thread was runnable without a CPU during a scrape, or during 5 ms in the
row without scrapes.

    benches/scrapes.py [PERILUNE] [SECONDS]

Run it as root with a release build on a quiet machine; it needs a C compiler. The scrapers use a
CPU of their own if there is one. Compare the rows of one run with each other.
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

KEYS = 10_000
# System calls with as many numbers, which no kernel has.
KEYED_LOAD = """
#include <unistd.h>
int main(void) {
  for (int i = 0;; i++) {
    syscall(10000 + i % 10000);
    if (i % 2000 == 0) usleep(5000);
  }
}
"""
PROTOBUF = (
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
)


def request(port, accept="text/plain"):
    connection = socket.create_connection(("127.0.0.1", port))
    connection.sendall(f"GET /metrics HTTP/1.0\r\nAccept: {accept}\r\n\r\n".encode())
    return connection


def receive(connection):
    page = bytearray()
    while part := connection.recv(1 << 16):
        page += part
    return page


def scrape(port, state):
    """Scrapes without a pause."""
    while not state["over"]:
        begun = time.perf_counter()
        with request(port) as connection:
            size = len(receive(connection))
        state["scrapes"].append((time.perf_counter() - begun, size))


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def begin(port, arguments):
    """Starts a run that serves metrics, and waits until it watches."""
    command = [PERILUNE, *arguments, "--prometheus", str(port), "--json", "--stats"]
    monitor = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while "watching" not in monitor.stderr.readline():
        pass
    output = []
    reader = threading.Thread(target=lambda: output.extend(monitor.stdout))
    reader.start()
    return monitor, reader, output


def end(monitor, reader, output):
    """Ends a run. Returns its events, losses and own CPU time per event."""
    monitor.send_signal(signal.SIGINT)
    reader.join()
    monitor.wait()
    objects = [json.loads(line) for line in output if '"final"' in line or '"stats"' in line]
    coverage = next(one for one in objects if one["type"] == "coverage" and one["final"])
    stats = next(one for one in objects if one["type"] == "stats")
    return coverage["events"], coverage["lost"], stats["ns_per_event"] or 0


def run(label, load, fast, slow):
    port, state = free_port(), {"over": False, "scrapes": []}
    monitor = begin(port, ["syscalls", "-i", "200"])
    process = subprocess.Popen([load])
    threads = [threading.Thread(target=scrape, args=(port, state)) for _ in range(fast)]
    stuck = [request(port) for _ in range(slow)]
    for thread in threads:
        thread.start()
    time.sleep(SECONDS)
    state["over"] = True
    for thread in threads:
        thread.join()
    process.kill()
    process.wait()
    events, lost, each = end(*monitor)
    for connection in stuck:
        connection.close()
    times = sorted(seconds for seconds, _ in state["scrapes"])
    middle = f"{times[len(times) // 2] * 1e3:.1f}" if times else "-"
    print(f"{label:24} {events:10} {lost:6} {each:9.0f} {len(times):8} {middle:>10}")


def waited_ns(pid):
    """Returns how long the main thread of a process was runnable without a CPU."""
    with open(f"/proc/{pid}/task/{pid}/schedstat") as file:
        return int(file.read().split()[1])


def pages(label, load, accept):
    """Scrapes pages of many series, each after a new interval."""
    port, times, waits, page = free_port(), [], [], b""
    selector = f"raw_syscalls:sys_enter/id>={KEYS}/"
    arguments = ["top", "-e", selector, "-k", "id", "-i", "200", "--where", "user"]
    monitor = begin(port, [*arguments, "--series", str(2 * KEYS)])
    process = subprocess.Popen([load])
    time.sleep(1)
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        before, begun = waited_ns(monitor[0].pid), time.perf_counter()
        if accept:
            with request(port, accept) as connection:
                page = receive(connection)
            times.append(time.perf_counter() - begun)
        else:
            time.sleep(0.005)
        waits.append(waited_ns(monitor[0].pid) - before)
        time.sleep(0.23)
    process.kill()
    process.wait()
    events, lost, each = end(*monitor)
    middle, most = "-", "-"
    if times:
        middle, most = (f"{ms * 1e3:.1f}" for ms in (sorted(times)[len(times) // 2], max(times)))
    print(
        f"{label:24} {events:10} {lost:6} {each:9.0f} {len(times):8} {middle:>10} {most:>8} "
        f"{max(waits) / 1e6:12.2f} {len(page):9}"
    )


def main():
    with tempfile.TemporaryDirectory() as folder:
        load, keyed = os.path.join(folder, "load"), os.path.join(folder, "keyed")
        for path, source in (load, LOAD), (keyed, KEYED_LOAD):
            subprocess.run(
                ["cc", "-O2", "-x", "c", "-o", path, "-"], input=source, text=True, check=True
            )
        print(f"{'':24} {'events':>10} {'lost':>6} {'ns/event':>9} {'scrapes':>8} {'median ms':>10}")
        run("no scraper", load, 0, 0)
        run("4 without a pause", load, 4, 0)
        run("40 that never read", load, 0, 40)
        print(
            f"\n{f'{KEYS} series':24} {'events':>10} {'lost':>6} {'ns/event':>9} {'scrapes':>8} "
            f"{'median ms':>10} {'max ms':>8} {'run waits ms':>12} {'bytes':>9}"
        )
        pages("no scrape", keyed, None)
        pages("text", keyed, "text/plain")
        pages("protobuf", keyed, PROTOBUF)


main()
