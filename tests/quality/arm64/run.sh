#!/usr/bin/env bash
# Cross-compiles the core and its tests for arm64 and runs them under QEMU:
# conformance with its random requests, and all tiny inputs, each with NEON and
# with scalar kernels. No package of this machine changes except the cross
# compiler.
#
# usage: tests/quality/arm64/run.sh [--unit]     --unit adds the unit tests
set -euo pipefail

programs=(allocations conformance exhaustive)
case "${1:-}" in
  "") ;;
  --unit) programs+=(unit) ;;
  *)
    sed -n '2,7s/^# \{0,1\}//p' "$0"
    [ "$1" = --help ] && exit 0
    exit 2
    ;;
esac
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
# shellcheck source=deploy/packages.sh
source deploy/packages.sh

install_packages "${TOPK_BUILD_PACKAGES[@]}" g++-aarch64-linux-gnu python3
# Unpacked: installed, it would take over every arm64 program of this machine.
unpack_package qemu-user-static build/tools
PATH="$PWD/build/tools/usr/bin:$PATH"
tests/quality/arm64/sysroot.sh build/arm64-sysroot

cmake --preset arm64
targets=("${programs[@]/#/topk_}")
cmake --build --preset arm64 --target "${targets[@]/%/_test}"

run() {
  qemu-aarch64-static -L build/arm64-sysroot "build/arm64/bin/$1" "${@:2}"
}
# A set that is not there is refused. Both are there, so each program below,
# which runs on every set that there is, runs on both.
for set in neon scalar; do
  echo "== $set" >&2
  TOPK_INSTRUCTION_SET=$set run topk_exhaustive_test --gtest_brief=1 \
    --gtest_filter='*EveryRowAndEveryK/u1'
done
# One process for all cases of a program, which QEMU takes long to start.
for program in "${programs[@]}"; do
  echo "== $program" >&2
  run "topk_${program}_test" --gtest_brief=1
done
