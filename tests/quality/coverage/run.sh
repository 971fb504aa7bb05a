#!/usr/bin/env bash
# Measures the test coverage of core/, server/ and client/. Builds with Clang's
# counters, runs the GoogleTest tests, the Python tests and the fuzzing corpora,
# and prints line and branch coverage by file. build/coverage/report.txt shows
# how often each line ran. Exits with 1 if a test fails.
#
# usage: tests/quality/coverage/run.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
# shellcheck source=deploy/packages.sh
source deploy/packages.sh
build=build/coverage
failed=false

install_packages "${TOPK_BUILD_PACKAGES[@]}" "${TOPK_TEST_PACKAGES[@]}" \
  clang-14 libclang-rt-14-dev llvm-14
cmake --preset coverage
cmake --build --preset coverage
rm -rf "$build/profiles"
# Each program has its own files, which its processes update when they exit.
# Killed processes are not counted. Run whole programs: a process per test
# case, as in ctest, would spend its time on writing counters.
for test in "$build"/bin/*_test; do
  LLVM_PROFILE_FILE="$PWD/$build/profiles/${test##*/}-%2m.profraw" \
    "$test" --gtest_brief=1 || failed=true
done
LLVM_PROFILE_FILE="$PWD/$build/profiles/ctest-%2m.profraw" \
  ctest --preset coverage -j "$(nproc)" \
  -R '^(client|fuzz|hostile|oip|python|servers)\.' || failed=true
if [ "$failed" = true ]; then
  echo "== tests failed; what they ran counts all the same" >&2
fi

llvm-profdata-14 merge -sparse "$build"/profiles/*.profraw -o "$build/profile"
programs=()
for program in "$build"/bin/*; do programs+=(-object "$program"); done
counted() {
  llvm-cov-14 "$1" "${programs[@]}" -instr-profile="$build/profile" "${@:2}" \
    -sources core server client
}
counted show -show-branches=count >"$build/report.txt"
counted report -show-region-summary=false
[ "$failed" = false ]
