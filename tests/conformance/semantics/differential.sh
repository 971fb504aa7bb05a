#!/usr/bin/env bash
# Sends the same requests to ONNX Runtime, onnx's reference evaluator, OpenVINO,
# PyTorch, NumPy and a topkd built from this checkout, and reports differences.
# First compares the encodings of OpenVINO's small types (packing.py).
#
# usage: tests/conformance/semantics/differential.sh [--count N] [--seed S]
#                                                 [--out FILE]
#
# Needs PyPI, once. differential.py documents the flags.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
# shellcheck source=tests/bench/build.sh
source tests/bench/build.sh
build_bench topk_server
install_python grpcio ml_dtypes numpy onnx onnxruntime openvino torch

"$peers_venv/bin/python" tests/conformance/semantics/packing.py \
  build/bench/bin/topkd
exec "$peers_venv/bin/python" tests/conformance/semantics/differential.py \
  build/bench/bin/topkd "$@"
