#!/usr/bin/env bash
# Measures the CUDA backend on the device of this machine, and prints lines of
# JSON to stderr. Then compares it with torch.topk, and prints a table.
#
# usage: tests/bench/gpu.sh     (PyTorch is 5 GB)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=tests/bench/build.sh
source tests/bench/build.sh
install_packages "${TOPK_BUILD_PACKAGES[@]}" "${TOPK_TEST_PACKAGES[@]}" >&2
echo "== building gpu_bench" >&2
nvcc=$(deploy/cuda_toolkit.sh)
cmake -S . -B build/bench-cuda -G Ninja -DCMAKE_BUILD_TYPE=Release \
  -DTOPK_WITH_CUDA=ON -DCMAKE_CUDA_COMPILER="$nvcc" >/dev/null
cmake --build build/bench-cuda --target gpu_bench >&2

lines=$(mktemp)
trap 'rm -f "$lines"' EXIT
workloads=tests/bench/gpu/workloads.cases
build/bench-cuda/bin/gpu_bench $workloads | tee "$lines" >&2
install_python torch
"$peers_venv/bin/python" tests/bench/gpu/torch_topk.py $workloads "$lines"
