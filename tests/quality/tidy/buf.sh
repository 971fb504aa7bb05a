#!/usr/bin/env bash
# Lints the contract with buf's STANDARD rules, and compares it with the one of
# the last tag, which it must not break. Not part of tests/run.sh, which needs
# no Node.js: run it when a .proto file changes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../../proto"
buf=(npx --yes @bufbuild/buf)
"${buf[@]}" lint
if ! tag=$(git describe --tags --abbrev=0 2>/dev/null); then
  echo "SKIPPED: no tag to compare the contract with" >&2
  exit 0
fi
repository=$(realpath "$(git rev-parse --git-common-dir)")
"${buf[@]}" breaking --against "$repository#tag=$tag,subdir=proto"
echo "== nothing of $tag is broken" >&2
