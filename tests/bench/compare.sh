#!/usr/bin/env bash
# Compares the speed of this tree and a commit. Builds both and measures them
# alternately. Prints the median ratio of new to base for each row, and its
# spread. Measures rows again that are slower by more than 5 % beyond their
# spread. Exits with 1 if a row is slower both times.
#
# usage: tests/bench/compare.sh BASE [--rounds N] [--only ROW...]
#
# BASE         a commit, for example HEAD~3 or v0.1.0
# --rounds N   pairs of measurements for each row (7)
# --only ROW   kernels, service or names of rows, such as T1_u8 and "many 1 KiB"
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=tests/bench/build.sh
source tests/bench/build.sh
commit=$(git rev-parse --verify --quiet "${1:-}^{commit}") || {
  echo "compare.sh: '${1:-}' is not a commit; --help explains the usage" >&2
  exit 2
}
shift
build_bench topk_bench topk_server topk_cli
base=$PWD/build/compare/$commit
if [ ! -e "$base/built" ]; then
  rm -rf "$base"
  mkdir -p "$base"
  git archive "$commit" | tar -x -C "$base"
  (
    cd "$base"
    # shellcheck source=/dev/null
    source tests/bench/build.sh
    build_bench topk_bench topk_server >/dev/null
  )
  touch "$base/built"
fi
exec /usr/bin/python3 tests/bench/compare.py "$base/build/bench/bin" \
  build/bench/bin "$@"
