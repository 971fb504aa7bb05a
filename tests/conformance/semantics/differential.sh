#!/usr/bin/env bash
# Compares topkd's results with those of other libraries.
#
# usage: tests/conformance/semantics/differential.sh [--count N] [--seed S]
#
# Needs PyPI, once. differential.py documents the flags.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
# shellcheck source=tests/bench/build.sh
source tests/bench/build.sh
build_bench topk_server
install_python ml_dtypes onnx onnxruntime openvino ./client/python
TOPK_CLIENT=installed exec "$peers_venv/bin/python" \
  tests/conformance/semantics/differential.py build/bench/bin/topkd "$@"
