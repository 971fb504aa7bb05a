#!/usr/bin/env bash
# Fuzzes one or all targets with libFuzzer and prints a table. Saves inputs that
# cover new code in build/fuzz/found, and failing inputs in build/fuzz/failed.
# Exits with 1 if an input failed.
#
# usage: tests/fuzz/run.sh TARGET|all [SECONDS]   (60 s)
set -euo pipefail

if [ $# -lt 1 ] || [ $# -gt 2 ]; then
  sed -n '2,6s/^# \{0,1\}//p' "$0"
  exit 2
fi
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=deploy/packages.sh
source deploy/packages.sh
install_packages "${TOPK_BUILD_PACKAGES[@]}" "${TOPK_TEST_PACKAGES[@]}" \
  clang-14 libclang-rt-14-dev
seconds=${2:-60}
targets=("$1")
if [ "$1" = all ]; then
  targets=(parsed_message request stream numpy oip)
fi
cmake --preset fuzz
cmake --build --preset fuzz --target "${targets[@]/%/_fuzz}"

mkdir -p build/fuzz/failed
echo '| target | executions | edges | found |'
echo '|---|---:|---:|---|'
failed=false
for target in "${targets[@]}"; do
  echo "== fuzzing $target for $seconds s" >&2
  found=build/fuzz/found/$target log=build/fuzz/$target.log result=none
  mkdir -p "$found"
  if ! "build/fuzz/bin/${target}_fuzz" -max_total_time="$seconds" \
    -max_len=2000 -timeout=20 -print_final_stats=1 \
    -artifact_prefix="build/fuzz/failed/$target-" \
    "$found" "tests/fuzz/corpus/$target" >"$log" 2>&1; then
    result=$(sed -nE 's/^(does not hold|SUMMARY): /&/p' "$log" | head -n 1)
    tail -n 40 "$log" >&2
    failed=true
  fi
  printf '| %s | %s | %s | %s |\n' "$target" \
    "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" \
    "$(sed -nE 's/^#[0-9]+\s+[A-Za-z]+\s+cov: ([0-9]+).*/\1/p' "$log" |
      tail -n 1)" "$result"
done
[ "$failed" = false ]
