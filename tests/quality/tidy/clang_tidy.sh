#!/usr/bin/env bash
# Runs clang-tidy over core, server and client. .clang-tidy lists the checks and
# why others are off. Not part of tests/run.sh, because it takes minutes.
#
# usage: tests/quality/tidy/clang_tidy.sh [REGEX]    only files that match
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
# shellcheck source=deploy/packages.sh
source deploy/packages.sh
install_packages "${TOPK_BUILD_PACKAGES[@]}" clang-tidy-14

# Combine the sources into a few files, so that headers are analyzed less often.
cmake --preset dev -B build/clang-tidy -DTOPK_BUILD_TESTS=OFF \
  -DCMAKE_VERIFY_INTERFACE_HEADER_SETS=OFF \
  -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=16 >/dev/null
mapfile -t generated < <(ninja -C build/clang-tidy -t targets all |
  sed -nE 's/^([^:]*\.pb\.h):.*/\1/p')
ninja -C build/clang-tidy "${generated[@]}" >/dev/null
# The build's flags are for GCC. Generated code is not checked.
run-clang-tidy-14 -quiet -p build/clang-tidy \
  -extra-arg=-Wno-unknown-warning-option "^(?!.*/proto/).*${1:-}"
