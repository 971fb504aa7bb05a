#!/usr/bin/env bash
# Lints the contract with buf's STANDARD rules. Not part of tests/run.sh, which
# needs no Node.js: run it when a .proto file changes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../proto"
exec npx --yes @bufbuild/buf lint
