#!/usr/bin/env bash
# Compares topkd with Triton, which runs ONNX Runtime's TopK through PyTriton,
# and prints a Markdown table. Triton's Python client calls both alternately.
#
# usage: tests/bench/triton.sh [--json FILE]
#
# --json FILE  writes the results to FILE, for figures.py
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=tests/bench/build.sh
source tests/bench/build.sh
build_bench topk_server

peers_venv=build/triton  # PyTriton needs older packages than the other peers
install_python nvidia-pytriton==0.7.0 'tritonclient[grpc]==2.73.0' \
  'onnxruntime<1.32' onnx
PATH=$PWD/$peers_venv/bin:$PATH exec "$peers_venv/bin/python" \
  tests/bench/triton_peer.py build/bench/bin "$@"
