#!/usr/bin/env bash
# Measures the throughput and latency of topkd on 1, 2, 4, ... CPUs beside a
# no-op gRPC server, and of several servers on one port. Prints a Markdown table.
#
# usage: tests/bench/scale.sh [--json FILE]
#
# --json FILE  also writes the rows to FILE, one JSON object per line
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=tests/bench/build.sh
source tests/bench/build.sh
build_bench service_bench topk_server topk_cli
exec /usr/bin/python3 tests/bench/scale.py build/bench/bin "$@"
