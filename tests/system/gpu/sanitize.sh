#!/usr/bin/env bash
# Runs the GPU tests under NVIDIA's compute-sanitizer, which finds out-of-bounds
# accesses, races, reads of uninitialized memory and misused barriers. Needs a
# device. All tests take long: select some with the filter.
#
# usage: tests/system/gpu/sanitize.sh [GTEST_FILTER]     (Gpu.PassesEveryCase)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

sanitizer=$(command -v compute-sanitizer || true)
if [ -z "$sanitizer" ]; then
  sanitizer=$(find build/cuda-toolkit /usr/local/cuda -name compute-sanitizer \
    -type f 2>/dev/null | head -1)
fi
if [ -z "$sanitizer" ]; then
  echo "sanitize.sh: no compute-sanitizer: it comes with the CUDA toolkit, or" \
    "build/cuda-toolkit/bin/pip install nvidia-cuda-sanitizer-api" >&2
  exit 1
fi
program=build/dev/bin/topk_gpu_test
if [ ! -e "$program" ]; then
  echo "sanitize.sh: no $program: configure with --preset cuda -B build/dev," \
    "see deploy/cuda_toolkit.sh, and build" >&2
  exit 1
fi
for tool in memcheck racecheck initcheck synccheck; do
  echo "== $tool" >&2
  "$sanitizer" --tool "$tool" --error-exitcode 1 \
    "$program" --gtest_filter="${1:-Gpu.PassesEveryCase}"
done
