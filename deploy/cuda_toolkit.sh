#!/usr/bin/env bash
# Prints the path of an nvcc that can build the CUDA backend (13.5 or later, for
# its CUB): $CUDACXX, an installed nvcc, or else NVIDIA's from PyPI (370 MB) in
# build/cuda-toolkit.
#
# usage: cmake --preset cuda -DCMAKE_CUDA_COMPILER="$(deploy/cuda_toolkit.sh)"
set -euo pipefail

if [ $# -gt 0 ]; then
  sed -n '2,6s/^# \{0,1\}//p' "$0"
  [ "$1" = --help ] && exit 0
  exit 2
fi
cd "$(dirname "${BASH_SOURCE[0]}")/.."

for nvcc in "${CUDACXX:-}" "$(command -v nvcc || true)" \
  /usr/local/cuda/bin/nvcc; do
  [ -x "$nvcc" ] || continue
  version=$("$nvcc" --version | sed -nE 's/.*release ([0-9.]+),.*/\1/p')
  if [ "$(printf '%s\n' 13.5 "$version" | sort -V | head -1)" = 13.5 ]; then
    echo "$nvcc"
    exit
  fi
  echo "== $nvcc is $version: too old" >&2
done

wanted=deploy/cuda_requirements.txt
if ! cmp -s "$wanted" build/cuda-toolkit/requirements.txt; then
  echo "== installing NVIDIA's compiler into build/cuda-toolkit" >&2
  rm -rf build/cuda-toolkit
  python3 -m venv build/cuda-toolkit >&2
  build/cuda-toolkit/bin/pip install --quiet --disable-pip-version-check \
    -r "$wanted" >&2
  cp "$wanted" build/cuda-toolkit/requirements.txt
fi
realpath -s build/cuda-toolkit/lib/python3*/site-packages/nvidia/cu13/bin/nvcc
