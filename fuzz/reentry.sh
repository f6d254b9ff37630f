#!/usr/bin/env bash
# Runs tests/handlers/reentry/monitor.lua under valgrind until it has made this number of calls: random
# functions of the API from every callback.
# Usage: fuzz/reentry.sh [CALLS]   (default 1000000)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
wanted=${1:-1000000}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cargo build
calls=0
for ((seed = 1; calls < wanted; seed++)); do
  PERILUNE_REENTRY=$scratch/$seed PERILUNE_SEED=$seed \
    cargo test --quiet --test handlers -- --ignored writes_the_files >"$scratch/log"
  # LuaJIT generates code at run time; --smc-check=all makes valgrind follow it.
  valgrind --quiet --smc-check=all --error-exitcode=99 \
    target/debug/perilune "$scratch/$seed/reentry.lua" \
    --json -i 10 --total --replay "$scratch/$seed/reentry.events" \
    >"$scratch/out" 2>"$scratch/err" || status=$?
  if [ "${status:-0}" -gt 1 ]; then
    echo "seed $seed: exit code $status" >&2
    cat "$scratch/err" >&2
    exit 1
  fi
  made=$(sed -n 's/.*calls=\([0-9]*\) wrong=0".*/\1/p' "$scratch/out")
  [ -n "$made" ] || { echo "seed $seed: a record read as a mixture, or no report" >&2; exit 1; }
  calls=$((calls + made))
  echo "seed $seed: $made calls, $calls in all"
done
