#!/bin/bash
# Prints the live table: own CPU time per event since the events were enabled, losses and memory of
# a release build under several loads, several runs each. Run as root on a quiet machine; needs
# stress-ng and a C compiler.
# ns/event is without the reports, whose CPU time is a column of its own: most of it is the search
# for names of functions, which takes as long in a run of seconds as in one of hours. Where few
# events come per wakeup, the wakeup is most of the cost of each.
# Compare the rows of one run with each other: machines differ, and so does one machine from hour to
# hour. If the kernel delays the end of a count, its events per second are too many. ONLY=REGEX
# selects rows, RUNS and SECONDS_EACH their number and length; PERILUNE is a binary to measure
# instead.
set -euo pipefail
cd "$(dirname "$0")/.."
runs=${RUNS:-3} seconds=${SECONDS_EACH:-5} only=${ONLY:-.}
if [ -z "${PERILUNE:-}" ]; then cargo build --release --quiet; fi
perilune=${PERILUNE:-${CARGO_TARGET_DIR:-$PWD/target}/release/perilune}
scratch=$(mktemp -d)
load= load_on=() tool_on=() spinners=()
stop() { # PID...
  for pid in "$@"; do
    kill "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  done
}
stop_load() {
  stop $load
  load=
}
stop_spinners() {
  stop "${spinners[@]}"
  spinners=()
}
trap 'stop_load; stop_spinners; rm -rf "$scratch"' EXIT

cat > "$scratch/getppid.c" <<'C'
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
int main(int argc, char **argv) {              /* getppid SECONDS: two processes call getppid */
  time_t end = time(0) + atoi(argv[1]);
  for (int i = 0; i < 2; i++)
    if (fork() == 0) {
      while (time(0) < end) for (int k = 0; k < 10000; k++) syscall(SYS_getppid);
      return 0;
    }
  while (wait(0) > 0) { }
}
C
cc -O2 -o "$scratch/getppid" "$scratch/getppid.c"

cat > "$scratch/table.lua" <<'L'
--- Two field reads, a Lua table and a histogram: what a typical handler does.
local m = monitor { summary = "two fields, a table, a histogram", order = false }
function m.init()
  local since, ran = {}, hist.log2 { title = "off CPU", unit = "ns" }
  evsel("sched:sched_switch", function(e)
    local now, next = e._time, e.next_pid
    since[e.prev_pid] = now
    local from = since[next]
    if from then ran:add(now - from) end
  end)
end
function m.interval() end
return m
L

# Runs a command and writes the number of its wakeups to the file $scratch/wakeups.
counted() {
  python3 -c '
import os, sys
pid = os.spawnvp(os.P_NOWAIT, sys.argv[2], sys.argv[2:])
_, status, usage = os.wait4(pid, 0)
open(sys.argv[1], "w").write(str(usage.ru_nvcsw))
sys.exit(os.waitstatus_to_exitcode(status))' "$scratch/wakeups" "$@"
}

measure() { # LABEL LOAD... -- PERILUNE-ARGS...
  local label=$1; shift
  if ! [[ $label =~ $only ]]; then return; fi
  local command=()
  while [ "$1" != -- ]; do command+=("$1"); shift; done; shift
  for _ in $(seq "$runs"); do
    "${load_on[@]}" "${command[@]}" >/dev/null 2>&1 & load=$!
    sleep 1
    counted "${tool_on[@]}" "$perilune" "$@" --duration "${seconds}s" --stats --json -q \
      -o "$scratch/out"
    stop_load
    grep -E '"type":"(stats|coverage)"' "$scratch/out" | python3 -c '
import json, sys
last = {o["type"]: o for o in map(json.loads, sys.stdin)}
s, coverage = last["stats"], last["coverage"]
wakeups = int(open(sys.argv[3]).read()) or 1
print("| %-34s | %9.0f | %8.1f | %8.1f | %7.0f | %6d | %6d | %7.1f | %6.1f |" % (
    sys.argv[1], s["events"] / float(sys.argv[2]), s["ns_per_event"] or 0,
    s["report_cpu_ns"] / 1e6, s["events"] / wakeups, s["lost"], coverage["undelivered"],
    s["max_rss_kb"] / 1024, s["start_ms"]))' "$label" "$seconds" "$scratch/wakeups"
  done
}

# The same with Parquet files: events, own CPU time and bytes per event.
measure_parquet() { # LABEL LOAD... -- PERILUNE-ARGS...
  local label=$1; shift
  if ! [[ $label =~ $only ]]; then return; fi
  local command=()
  while [ "$1" != -- ]; do command+=("$1"); shift; done; shift
  for _ in $(seq "$runs"); do
    rm -rf "$scratch/tables"
    "${command[@]}" >/dev/null 2>&1 & load=$!
    sleep 1
    "$perilune" "$@" --duration "${seconds}s" --stats --parquet "$scratch/tables" \
      2>"$scratch/messages"
    stop_load
    printf '| %-34s | %s, %s bytes of files\n' "$label" "$(grep 'own CPU' "$scratch/messages")" \
      "$(du -sb --apparent-size "$scratch/tables/events" | cut -f1)"
  done
}

row='| %-34s | %9s | %8s | %8s | %7s | %6s | %6s | %7s | %6s |\n'
printf "$row" "what" "events/s" "ns/event" "rep. ms" "ev/wake" "lost" "undel." "MiB rss" "ms up"
printf "$row" "-" "-:" "-:" "-:" "-:" "-:" "-:" "-:" "-:"
switch=(stress-ng --switch 2 --timeout 30 --quiet)
getppid=("$scratch/getppid" $((seconds + 4)))
measure "top, counted in the kernel"         "${switch[@]}"  -- top \
  -e sched:sched_switch -k prev_pid --where kernel
measure "top, sched_switch by prev_pid"      "${switch[@]}"  -- top \
  -e sched:sched_switch -k prev_pid --where user
measure "top, sched_switch, named"           "${switch[@]}"  -- top \
  -e sched:sched_switch//key=prev_pid/comm=prev_comm/ --where user
measure "top, sched_switch, two sums"        "${switch[@]}"  -- top \
  -e sched:sched_switch//key=prev_pid/comm=prev_comm/top-by=prev_prio/top-add=next_prio/ --where user
measure "top, sys_enter by thread"           "${getppid[@]}" -- top -e raw_syscalls:sys_enter \
  --where user
measure "two fields, a table, a histogram"   "${switch[@]}"  -- "$scratch/table.lua"
measure "syscalls, paired in the kernel"     "${getppid[@]}" -- syscalls --where kernel
measure "syscalls, enter and exit paired"    "${getppid[@]}" -- syscalls --where user
measure "wakeup to switch, delay"            "${switch[@]}"  -- multi-trace \
  -e sched:sched_wakeup -e sched:sched_switch//key=next_pid/ -k pid
measure "the same, or preempted"             "${switch[@]}"  -- multi-trace \
  -e 'sched:sched_wakeup,sched:sched_switch/prev_state==0||prev_state==256/key=prev_pid/' \
  -e sched:sched_switch//key=next_pid/ -k pid
measure "the same, --than 1s"                "${switch[@]}"  -- multi-trace \
  -e 'sched:sched_wakeup,sched:sched_switch/prev_state==0||prev_state==256/key=prev_pid/' \
  -e sched:sched_switch//key=next_pid/ -k pid --than 1s
measure "the same, --than 1s --detail"       "${switch[@]}"  -- multi-trace \
  -e 'sched:sched_wakeup,sched:sched_switch/prev_state==0||prev_state==256/key=prev_pid/' \
  -e sched:sched_switch//key=next_pid/ -k pid --than 1s --detail
measure "rundelay, in the kernel"            "${switch[@]}"  -- rundelay --where kernel
measure "rundelay, from records"             "${switch[@]}"  -- rundelay --where user
measure "trace to a file, sched_switch"      "${switch[@]}"  -- trace -e sched:sched_switch
measure "trace --perfetto, sched_switch"     "${switch[@]}"  -- trace -e sched:sched_switch \
  --perfetto "$scratch/t.pftrace"
measure_parquet "trace --parquet, sched_switch" "${switch[@]}" -- trace -e sched:sched_switch

# The monitors under their natural loads. Those of the last group print each event, or wake perilune
# for each.
# Perilune and the load run on different CPUs if there are several: the kernel bills the time in
# interrupts of the load to the task that runs on the CPU.
last=$(($(nproc) - 1))
if [ "$last" -gt 0 ]; then load_on=(taskset -c "1-$last") tool_on=(taskset -c 0); fi
cc -O2 -pthread -o "$scratch/loads" benches/loads.c
natural() { # LOAD MONITOR OPTION...
  local name=$1; shift
  measure "$*" "$scratch/loads" "$name" $((seconds + 4)) -- "$@"
}
# The same on CPUs that are never idle: some kernels write no records of idle CPUs, and timers and
# requests to the disk end there.
awake() { # LOAD MONITOR OPTION...
  if ! [[ "${*:2}" =~ $only ]]; then return; fi
  for cpu in $(seq "$((last > 0))" "$last"); do
    taskset -c "$cpu" chrt --idle 0 "$scratch/loads" spin $((runs * (seconds + 4))) & spinners+=($!)
  done
  natural "$@"
  stop_spinners
}
cd "$scratch"                                  # the loads' files
natural switches container
natural containers container
natural files files
natural files cache
natural mapped page-faults
natural mapped oom
natural dirty writeback
awake direct biolatency
awake direct blktrace
natural packets net
natural packets irq
natural packets nested -e irq:softirq_entry,irq:softirq_exit
natural dropped net --drops
natural connections tcp
natural connections tcp --states
natural stream tcp --rtt
natural locks locks
natural locks locks --futex --holder
natural names dns
natural switches cpudist
natural switches cpudist --where user
natural switches oncpu
natural switches runqlen
natural switches task-state
natural switches eval --begin 'by = kv { "comm" }' -e sched:sched_switch 'by:add(e.prev_comm)'
natural switches hrtimer -e sched:sched_switch 'sched_switch < 0'
natural switches num-dist -e 'sched:sched_stat_runtime//num=runtime/'
natural switches mpdelay -e sched:sched_waking,sched:sched_wakeup,sched:sched_switch
natural moves sched-migrate
awake sleeps hrtimer-latency
natural opens kmemprof --alloc kmem:kmem_cache_alloc --free kmem:kmem_cache_free
natural opens kmemprof --alloc kmem:kmem_cache_alloc --free kmem:kmem_cache_free --where kernel
natural opens kmemleak --alloc kmem:kmem_cache_alloc --free kmem:kmem_cache_free
natural opens syscalls
natural dropped stackcount -e skb:kfree_skb
natural sleeps offcpu

# Probes of the allocator. The load has a libc of its own: perilune's own calls would be probed, too.
library=$(ldd "$scratch/loads" | awk '/libc\.so\.6/ { print $3 }')
mkdir "$scratch/lib"
cp "$library" "$scratch/lib/libc.so.6"
probed() { # MONITOR OPTION...
  measure "$*" env LD_LIBRARY_PATH="$scratch/lib" "$scratch/loads" heap $((seconds + 4)) -- "$@"
}
probed malloc --library lib/libc.so.6
probed funccount -e uprobe:lib/libc.so.6:malloc
probed funclatency -e uprobe:lib/libc.so.6:malloc
probed stackcount -e uprobe:lib/libc.so.6:malloc

natural synced fsync
natural executed execs
natural opens opens
awake direct biosnoop
natural signals signal
natural connections tcp --each
