#!/usr/bin/env bash
# Installs what the tests need, builds, and runs every test.
#
# usage: tests/run.sh [--all]
#
# --all   tests the image, Compose and the Helm chart on Docker and in a cluster
#         (needs root and Go 1.24); tests the Python client with PyTorch, and
#         with the newest packages for the oldest and the newest Python; builds
#         the CUDA backend too, and runs the tests of a device; runs the unit,
#         conformance and integration tests with AddressSanitizer and
#         UndefinedBehaviorSanitizer, and the tests of threads with
#         ThreadSanitizer
set -euo pipefail

all=false
case "${1:-}" in
  "") ;;
  --all) all=true ;;
  *)
    sed -n '2,12s/^# \{0,1\}//p' "$0"
    [ "$1" = --help ] && exit 0
    exit 2
    ;;
esac
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=deploy/packages.sh
source deploy/packages.sh

# step TEXT: prints the next step and the seconds so far.
step() { echo "== $SECONDS s: $*" >&2; }

# Prints one line for each test, without the parameter.
run_tests() {
  ctest "$@" | sed -uE '/^ +Start +[0-9]+: /d
    s/^( *[0-9]+\/[0-9]+ Test +#.*[^.])\.{4,}/\1 .../
    s/^( *[0-9]+\/[0-9]+ Test +#.*)  # GetParam\(\) = .* \.\.\./\1 .../'
}

step "checking the packages"
install_packages "${TOPK_BUILD_PACKAGES[@]}" "${TOPK_TEST_PACKAGES[@]}"

# Fetches programs that some tests need. These tests are skipped without them.
fetch_programs() {
  # The real Prometheus, for the tests in which it scrapes a server.
  unpack_package prometheus build/tools

  # Triton's client, for the tests in which the client calls a server.
  tests/support/venv.sh oip ||
    echo "== no Triton client: oip.tritonclient is skipped" >&2

  # mypy and pyright, which check the Python client.
  tests/support/venv.sh types || echo "== no mypy: python.types is skipped" >&2

  # Envoy.
  tests/support/venv.sh servers ||
    echo "== no Envoy: servers.envoy, .json, .browser are skipped" >&2

  # A page that calls over gRPC-Web.
  client/examples/run.sh none web ||
    echo "== no npm: servers.browser is skipped" >&2
}
# Not in the background, where sudo could not ask for a password.
install_packages chromium ||
  echo "== no Chromium: servers.browser is skipped" >&2
if $all; then
  install_packages python3-torch ||
    echo "== no PyTorch: its tests of the Python client are skipped" >&2
fi
fetch_programs &
fetching=$!
PATH="$PWD/build/tools/usr/bin:$PATH"

step "building"
cmake --preset dev
cmake --build --preset dev
wait "$fetching"
step "running every test"
# Tests often wait, so four tests at a time keep two processors busy.
run_tests --preset dev -j 4

if $all; then
  step "testing the image, Compose and the Helm chart in a cluster"
  tests/system/cluster/run.sh || [ $? = 77 ]
  if nvcc=$(deploy/cuda_toolkit.sh); then
    step "building the CUDA backend, and running what needs a device"
    # Reuse dev's build folder: only the registry of backends differs. The next
    # run with the preset dev turns CUDA off again.
    cmake --preset cuda -B build/dev -DCMAKE_CUDA_COMPILER="$nvcc"
    cmake --build build/dev --target topk_gpu_test
    run_tests --test-dir build/dev --output-on-failure --no-tests=error \
      -L '^gpu$'
  else
    step "no compiler for CUDA: its kernels are not built"
  fi
  step "installing the Python client for the oldest and the newest Python"
  tests/clients/python/pip_install.sh build/dev/bin/topkd --oldest-and-newest ||
    [ $? = 77 ]
  step "building with AddressSanitizer and UndefinedBehaviorSanitizer"
  cmake --preset asan
  cmake --build --preset asan
  step "running unit, conformance and integration with them"
  run_tests --preset asan -j 4
  # Clang 14's ThreadSanitizer needs vm.mmap_rnd_bits <= 28. Debian's default is
  # 28. Only root can read the setting. Otherwise, assume the default.
  if [ "$(cat /proc/sys/vm/mmap_rnd_bits 2>/dev/null || echo 28)" -gt 28 ]; then
    step "no ThreadSanitizer: vm.mmap_rnd_bits is more than 28"
  else
    step "building with ThreadSanitizer"
    cmake --preset tsan
    cmake --build --preset tsan
    step "running the programs in which threads meet"
    run_tests --preset tsan -j 4
  fi
fi
step "done"
