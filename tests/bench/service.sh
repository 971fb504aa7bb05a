#!/usr/bin/env bash
# Compares topkd over the wire with a no-op gRPC server, and prints a Markdown
# table. Both are measured alternately in each row.
#
# usage: tests/bench/service.sh [--seconds S] [--only CALL...]
#                               [--servers FOLDER] [--json FILE]
#
# --seconds S       the time for each row and server (3)
# --only CALL       unary, stream, many, shm (all)
# --servers FOLDER  use the servers in build/bench of the chroot FOLDER (see
#                   tests/quality/grpc_current.sh)
# --json FILE       writes the results to FILE, for figures.py
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=tests/bench/build.sh
source tests/bench/build.sh
build_bench service_bench topk_server topk_cli
exec /usr/bin/python3 tests/bench/service.py build/bench/bin "$@"
