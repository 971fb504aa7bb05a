#!/usr/bin/env bash
# Compares the CPU kernels with other libraries on each workload of
# workloads.cases. Prints a table.
#
# usage: tests/bench/peers.sh [--threads N] [--only CASE] [--torch]
#                             [--json FILE]
#
# --threads N   threads of each library (1)
# --only CASE   only workloads whose name begins with CASE
# --torch       also PyTorch (a large download)
# --json FILE   writes the results to FILE, for figures.py
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=tests/bench/build.sh
source tests/bench/build.sh
build_bench topk_bench

# Use 1.31: ONNX Runtime 1.32 takes 1.1 to 2.8 times as long on these workloads.
packages=('onnxruntime<1.32' onnx openvino numpy ml_dtypes)
for argument in "$@"; do
  if [ "$argument" = --torch ]; then packages+=(torch); fi
done
install_python "${packages[@]}"

exec "$peers_venv/bin/python" tests/bench/peers.py \
  build/bench/bin/topk_bench "$@"
