#!/usr/bin/env bash
# Builds the tests for arm64 with Debian's cross compiler, and runs them under
# QEMU. Installs only the cross compiler and mmdebstrap on this machine.
#
# usage: tests/quality/arm64/run.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
# shellcheck source=deploy/packages.sh
source deploy/packages.sh

arm64=$PWD/build/arm64
sysroot=$PWD/build/arm64-sysroot

install_packages "${TOPK_BUILD_PACKAGES[@]}" libgtest-dev libgmock-dev \
  libbenchmark-dev g++-aarch64-linux-gnu mmdebstrap python3
# Unpack QEMU only. If installed, it would run every arm64 program on this
# machine.
unpack_package qemu-user-static build/tools
PATH="$PWD/build/tools/usr/bin:$PATH"

# Compilers, code generators and cmake are this machine's. The sysroot has only
# libraries and headers, and the files that their CMake packages need.
if [ ! -e "$sysroot/.done" ]; then
  packages=libc6-dev,libstdc++-12-dev,libgtest-dev,libgmock-dev,libbenchmark-dev
  for package in "${TOPK_BUILD_PACKAGES[@]}"; do
    case "$package" in
      *-dev) packages+=,$package ;;
    esac
  done
  rm -rf "$sysroot"
  mmdebstrap --quiet --variant=extract --architectures=arm64 \
    --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr --include="$packages" \
    bookworm "$sysroot" "$(debian_mirror)"
  # gRPC's CMake package needs its code generators, which run on this machine.
  for plugin in /usr/bin/grpc_*_plugin; do
    ln -sf "$plugin" "$sysroot/usr/bin/"
  done
  touch "$sysroot/.done"
fi

# Run all cases of a program in one process, because QEMU is slow to start.
run_tests() {
  echo "== $*" >&2
  qemu-aarch64-static -L "$sysroot" "$arm64/bin/topk_$1_test" \
    --gtest_brief=1 "${@:2}"
}
programs=(allocations conformance unit threads security merge client_unit)
targets=("${programs[@]/#/topk_}" topk_calls)
cmake --preset arm64
cmake --build --preset arm64 --target "${targets[@]/%/_test}" topk_server_test

# An unavailable instruction set is rejected. Both sets are accepted, so the
# programs below, which use every available set, use both.
for set in neon scalar; do
  TOPK_INSTRUCTION_SET=$set run_tests conformance \
    --gtest_filter='*/onnx_top_k'
done
for program in "${programs[@]}"; do run_tests "$program"; done
# Not run under QEMU: thousands of requests and the limit on log lines, which take
# minutes there; metrics of the process, because QEMU's /proc/self/stat has zeros;
# and starts with few file descriptors, because QEMU needs some itself.
run_tests calls --gtest_filter='-Determinism.*'
without=AccessLog.LimitsLinesOfInvalidRequests
without+=:Metrics.CountCallsRequestsAndStages
without+=:Topkd.ReportsTooFewFileDescriptors
run_tests server --gtest_filter="-$without"
