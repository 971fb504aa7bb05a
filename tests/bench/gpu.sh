#!/usr/bin/env bash
# Compares the CUDA backend with torch.topk on the device of this machine. Prints
# lines of JSON to stdout, then a table to stderr with the ratios to torch.topk.
#
# usage: tests/bench/gpu.sh [--no-torch]     (PyTorch is 5 GB)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=tests/bench/build.sh
source tests/bench/build.sh
torch=true
case "${1:-}" in
  "") ;;
  --no-torch) torch=false ;;
  *) echo "gpu.sh: unknown argument: $1" >&2 && exit 2 ;;
esac
install_packages "${TOPK_BUILD_PACKAGES[@]}" "${TOPK_TEST_PACKAGES[@]}" >&2
echo "== building gpu_bench" >&2
nvcc=$(deploy/cuda_toolkit.sh)
cmake -S . -B build/bench-cuda -G Ninja -DCMAKE_BUILD_TYPE=Release \
  -DTOPK_WITH_CUDA=ON -DCMAKE_CUDA_COMPILER="$nvcc" >/dev/null
cmake --build build/bench-cuda --target gpu_bench >&2

lines=$(mktemp)
trap 'rm -f "$lines"' EXIT
workloads=tests/bench/gpu/workloads.cases
build/bench-cuda/bin/gpu_bench $workloads | tee "$lines"
if $torch; then
  install_python torch
  "$peers_venv/bin/python" tests/bench/gpu/torch_topk.py $workloads |
    tee -a "$lines"
fi
python3 - "$lines" >&2 <<'END'
import json
import sys

rows = {}
for line in open(sys.argv[1], encoding="utf-8"):
    row = json.loads(line)
    rows.setdefault(row["workload"], {})[row["way"]] = row["least_us"]
ways = ["resident", "torch", "end_to_end", "cpu"]
print("| workload | " + " | ".join(way + ", us" for way in ways)
      + " | torch / resident |")
print("|---|" + "---:|" * (len(ways) + 1))
for name, row in rows.items():
    cells = [f"{row[way]:.1f}" if way in row else "-" for way in ways]
    ratio = (f"{row['torch'] / row['resident']:.2f}" if "torch" in row else "-")
    print(f"| {name} | " + " | ".join(cells) + f" | {ratio} |")
END
