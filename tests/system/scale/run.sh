#!/usr/bin/env bash
# Runs TopK of one tensor over many workers: topk_client.dask, .ray and the Spark
# recipe, with a file of 4 GiB, four workers and two topkd. Compares every result
# byte for byte with one streamed call, also while a worker and a server are
# killed. Also measures Dask's own topk. Not part of tests/run.sh: needs PyPI,
# 10 GiB of disk, 8 GiB of memory and ten minutes.
#
# usage: tests/system/scale/run.sh [--elements N] [--parts PART,...]
#                                  [--out FOLDER]
#
# --elements N   the number of elements in the file (2^30)
# --parts PART   some of small, dask, peers, ray, page (all)
# --out FOLDER   for the file (build/scale_out)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
# shellcheck source=tests/bench/build.sh
source tests/bench/build.sh
build_bench topk_server
# Spark needs Java. Without Java, Spark's part is skipped.
install_packages openjdk-17-jre-headless >&2 ||
  echo "== no Java: spark is skipped" >&2

venv=build/scale
if cmp -s tests/system/scale/requirements.txt "$venv/requirements.txt"; then
  "$venv/bin/pip" install -q --disable-pip-version-check --force-reinstall \
    --no-deps client/python
else
  echo "== installing Dask, Ray and Spark into $venv" >&2
  rm -rf "$venv"
  /usr/bin/python3 -m venv "$venv"
  "$venv/bin/pip" install -q --disable-pip-version-check \
    -r tests/system/scale/requirements.txt client/python
  cp tests/system/scale/requirements.txt "$venv/requirements.txt"
fi

exec "$venv/bin/python" tests/system/scale/scale.py build/bench/bin/topkd "$@"
