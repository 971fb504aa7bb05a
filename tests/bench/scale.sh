#!/usr/bin/env bash
# Measures the throughput and latency of topkd on 1, 2, 4, ... CPUs beside a
# no-op gRPC server, and of several servers on one port. Prints a Markdown table.
#
# usage: tests/bench/scale.sh [--cores N[,N]] [--seconds S] [--json FILE]
#        tests/bench/scale.sh --draw FILE SVG
#
# --cores N    the numbers of CPUs (1, 2, 4, ... up to all)
# --seconds S  the time for each row and server (1.5)
# --json FILE  also writes the rows to FILE, one JSON object per line
# --draw       draws the rows of FILE
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=tests/bench/build.sh
source tests/bench/build.sh
if [ "${1:-}" = --draw ]; then
  exec /usr/bin/python3 tests/bench/scale.py "$@"
fi
build_bench service_bench topk_server topk_cli
exec /usr/bin/python3 tests/bench/scale.py build/bench/bin "$@"
