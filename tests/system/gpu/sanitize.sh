#!/usr/bin/env bash
# Runs the GPU tests under NVIDIA's compute-sanitizer, which finds out-of-bounds
# accesses, races, reads of uninitialized memory and misused barriers. Needs a
# device and a build of build/dev with the preset cuda (see
# deploy/cuda_toolkit.sh). All tests take long: select some with the filter.
#
# usage: tests/system/gpu/sanitize.sh [GTEST_FILTER]     (Gpu.PassesEveryCase)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

sanitizer=$(command -v compute-sanitizer || find build/cuda-toolkit \
  /usr/local/cuda -name compute-sanitizer -type f 2>/dev/null | head -1 || true)
if [ -z "$sanitizer" ]; then
  echo "sanitize.sh: no compute-sanitizer: it comes with the CUDA toolkit, or" \
    "build/cuda-toolkit/bin/pip install nvidia-cuda-sanitizer-api" >&2
  exit 1
fi
for tool in memcheck racecheck initcheck synccheck; do
  echo "== $tool" >&2
  "$sanitizer" --tool "$tool" --error-exitcode 1 \
    build/dev/bin/topk_gpu_test --gtest_filter="${1:-Gpu.PassesEveryCase}"
done
