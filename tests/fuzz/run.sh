#!/usr/bin/env bash
# Fuzzes a target, or all targets, with libFuzzer and adds inputs that cover new
# code to the corpus, which keeps its number of files. Prints a table. Ends with
# 1 if an input failed; failing inputs are in build/fuzz/failed.
#
# usage: tests/fuzz/run.sh TARGET|all [SECONDS [JOBS]]   (60 s, one at once)
set -euo pipefail

if [ $# -lt 1 ] || [ $# -gt 3 ] || [ "$1" = --help ]; then
  sed -n '2,6s/^# \{0,1\}//p' "$0"
  [ "${1:-}" = --help ] && exit 0
  exit 2
fi
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=deploy/packages.sh
source deploy/packages.sh
install_packages "${TOPK_BUILD_PACKAGES[@]}" "${TOPK_TEST_PACKAGES[@]}" \
  clang-14 libclang-rt-14-dev
seconds=${2:-60}
most=${3:-1}
targets=("$1")
if [ "$1" = all ]; then
  targets=(raw_message onnx openvino directml kernels stream npy npz config
    security oip admission)
fi
cmake --preset fuzz
cmake --build --preset fuzz --target fuzz_seeds "${targets[@]/%/_fuzz}"

# Writes the seeds of a target, in addition to its corpus.
make_seeds() {
  case "$1" in
    npy | npz) /usr/bin/python3 tests/fuzz/npy_seeds.py "$1" "$2" ;;
    raw_message) ;; # its corpus is enough
    *) build/fuzz/bin/fuzz_seeds "$1" "$2" ;;
  esac
}

# Both read libFuzzer's lines of progress: "#12 DONE cov: 34 ft: 56 corp: 7/8b".
edges() { sed -nE "s/^#[0-9]+\s+($1)\s+cov: ([0-9]+).*/\2/p" "$2" | tail -n 1; }
runs() { sed -nE 's/^#([0-9]+)\s+[A-Z].*/\1/p' "$1" | tail -n 1; }

# Fuzzes one target; writes its row of the table.
fuzz() {
  local target=$1 corpus=tests/fuzz/corpus/$1 at=build/fuzz/fuzzed/$1
  local program=build/fuzz/bin/$1_fuzz result=none kept
  mkdir -p "$corpus" "$at/seeds" "$at/found" build/fuzz/failed
  kept=$(find "$corpus" -type f | wc -l)
  if [ "$kept" -lt 25 ]; then kept=25; fi
  rm -f "$at/row"
  make_seeds "$target" "$at/seeds"
  if ! "$program" -max_total_time="$seconds" -max_len=2000 -timeout=20 \
    -print_final_stats=1 -artifact_prefix="build/fuzz/failed/$target-" \
    "$at/found" "$corpus" "$at/seeds" > "$at/log" 2>&1; then
    result=$(sed -nE 's/^(does not hold|SUMMARY): /&/p' "$at/log" | head -n 1)
    tail -n 40 "$at/log" >&2
  fi
  # Only edges: their counts would keep many more files.
  "$program" -set_cover_merge=1 -use_counters=0 \
    "$corpus" "$at/found" "$at/seeds" > "$at/merge.log" 2>&1
  # The largest files cover most.
  find "$corpus" -type f -printf '%s %p\n' | sort -rn | tail -n +$((kept + 1)) |
    cut -d ' ' -f 2 | xargs -r rm
  printf '| %s | %s | %s | %s | %s | %s files, %s KiB | %s |\n' "$target" \
    "$(runs "$at/log")" "$seconds" "$(edges INITED "$at/log")" \
    "$(edges 'DONE|NEW|REDUCE|pulse' "$at/log")" \
    "$(find "$corpus" -type f | wc -l)" \
    "$(find "$corpus" -type f -printf '%s\n' |
      awk '{sum += $1} END {print int((sum + 1023) / 1024)}')" \
    "$result" > "$at/row"
}

for target in "${targets[@]}"; do
  while [ "$(jobs -rp | wc -l)" -ge "$most" ]; do wait -n || true; done
  echo "== fuzzing $target for $seconds s" >&2
  fuzz "$target" &
done
wait
cat << 'END'
| target | executions | seconds | edges at first | edges | corpus | found |
|---|---:|---:|---:|---:|---:|---|
END
rows=("${targets[@]/#/build/fuzz/fuzzed/}")
cat "${rows[@]/%//row}"
! grep -qv '| none |$' "${rows[@]/%//row}"
