#!/usr/bin/env bash
# Installs the dependencies of the soak, builds and runs it. See README.md.
#
# usage: tests/system/soak/run.sh [--minutes 10] [--seed N]
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
# shellcheck source=deploy/packages.sh
source deploy/packages.sh

install_packages "${TOPK_BUILD_PACKAGES[@]}" "${TOPK_TEST_PACKAGES[@]}"
cmake --preset dev >&2
cmake --build --preset dev --target topk_server topk_cli >&2
export PYTHONPATH=$PWD/tests/support/python
exec /usr/bin/python3 tests/system/soak/soak.py \
  build/dev/bin/topkd build/dev/bin/topk "$@"
