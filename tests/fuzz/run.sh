#!/usr/bin/env bash
# Fuzzes a target for a while with libFuzzer and adds what it finds new to the
# target's corpus.
#
# usage: tests/fuzz/run.sh TARGET [SECONDS]     e.g. raw_message 300 (60)
set -euo pipefail

if [ $# -lt 1 ] || [ $# -gt 2 ] || [ "$1" = --help ]; then
  sed -n '2,5s/^# \{0,1\}//p' "$0"
  [ "${1:-}" = --help ] && exit 0
  exit 2
fi
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=deploy/packages.sh
source deploy/packages.sh
install_packages "${TOPK_BUILD_PACKAGES[@]}" "${TOPK_TEST_PACKAGES[@]}" clang-14
cmake --preset fuzz
cmake --build --preset fuzz --target "$1_fuzz"
corpus=tests/fuzz/corpus/$1
found=build/fuzz/corpus/$1
mkdir -p "$found" "$corpus"
build/fuzz/bin/"$1_fuzz" -max_total_time="${2:-60}" -max_len=600 \
  -print_final_stats=1 "$found" "$corpus"
build/fuzz/bin/"$1_fuzz" -merge=1 "$corpus" "$found"
