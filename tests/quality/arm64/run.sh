#!/usr/bin/env bash
# Builds the tests for arm64 with Debian's cross compiler, and runs them under
# QEMU. Installs only the cross compiler and mmdebstrap on this machine.
#
# usage: tests/quality/arm64/run.sh [STEP...]
#        Without arguments, runs all steps in this order:
#   core          conformance, tiny inputs and allocations, NEON and scalar
#   unit          the unit tests
#   integration   calls to a server in the test's process, and the programs
set -euo pipefail

all=(core unit integration)
steps=("$@")
if [ $# -eq 0 ]; then steps=("${all[@]}"); fi
for name in "${steps[@]}"; do
  case " ${all[*]} " in
    *" $name "*) ;;
    *)
      sed -n '2,10s/^# \{0,1\}//p' "$0"
      [ "$name" = --help ] && exit 0
      exit 2
      ;;
  esac
done
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
cmake --preset arm64

build() { cmake --build --preset arm64 --target "$@"; }
run() { qemu-aarch64-static -L "$sysroot" "$arm64/bin/$1" "${@:2}"; }
# Run all cases of a program in one process, because QEMU is slow to start.
run_tests() { run "$1" --gtest_brief=1 "${@:2}"; }

core() {
  build topk_{allocations,conformance,exhaustive}_test
  # An unavailable instruction set is rejected. Both sets are accepted, so the
  # programs below, which use every available set, use both.
  for set in neon scalar; do
    TOPK_INSTRUCTION_SET=$set run_tests topk_exhaustive_test \
      --gtest_filter='*EveryRowAndEveryK/u1'
  done
  for program in allocations conformance exhaustive; do
    run_tests "topk_${program}_test"
  done
}

unit() {
  local programs=(unit threads security merge client_unit)
  local targets=("${programs[@]/#/topk_}")
  build "${targets[@]/%/_test}"
  for program in "${programs[@]}"; do run_tests "topk_${program}_test"; done
}

# Not run under QEMU: the limit on log lines, which takes 90 s there; metrics of
# the process, because QEMU's /proc/self/stat has zeros; and starts with few file
# descriptors, because QEMU needs some itself.
integration() {
  build topk_calls_test topk_server_test
  run_tests topk_calls_test
  local without=AccessLog.LimitsLinesOfInvalidRequests
  without+=:Metrics.CountCallsRequestsAndStages
  without+=:Topkd.ReportsTooFewFileDescriptors
  run_tests topk_server_test --gtest_filter="-$without"
}

for name in "${steps[@]}"; do
  echo "== $name" >&2
  start_time=$SECONDS
  "$name"
  echo "== $name: passed in $((SECONDS - start_time)) s" >&2
done
