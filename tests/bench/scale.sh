#!/usr/bin/env bash
# Measures the throughput and latency of topkd on 1, 2, 4, ... CPUs beside a
# no-op gRPC server, and of several servers on one port. Prints a Markdown table.
# The wake-ups of topkd's threads are shown because each takes microseconds.
#
# usage: tests/bench/scale.sh [--cores N[,N]] [--seconds S] [--json FILE]
#
# --cores N    the numbers of CPUs (1, 2, 4, ... up to all)
# --seconds S  the time for each row and server (1.5)
# --json FILE  also writes the rows to FILE, one JSON object per line
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=tests/bench/build.sh
source tests/bench/build.sh
build_bench service_bench topk_server topk_cli
exec /usr/bin/python3 tests/bench/scale.py build/bench/bin "$@"
