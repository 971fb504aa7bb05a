#!/usr/bin/env bash
# Runs topk_client.dask, .ray and the Spark recipe with two topkd, and compares
# small results byte for byte with one server's. Measures Dask's own topk of a
# file of 4 GiB too. Not part of tests/run.sh: needs PyPI, 10 GiB of disk, 8 GiB
# of memory and ten minutes.
#
# usage: tests/system/scale/run.sh [--parts PART...]
#
# --parts PART   some of small, peers, page (all)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
# shellcheck source=tests/bench/build.sh
source tests/bench/build.sh
build_bench topk_server
# Spark needs Java. Without Java, Spark's part is skipped.
install_packages openjdk-17-jre-headless >&2 ||
  echo "== no Java: spark is skipped" >&2

tests/support/venv.sh scale
build/scale/bin/pip install -q --disable-pip-version-check client/python
exec build/scale/bin/python tests/system/scale/scale.py \
  build/bench/bin/topkd "$@"
