#!/usr/bin/env bash
# Lints the .proto files with buf's rules, which require comments, and checks
# that the files do not break the messages of an earlier commit. Not part of
# tests/run.sh, because buf needs Node.js. Run this script when a .proto file
# changes.
#
# usage: tests/quality/tidy/buf.sh [COMMIT]
#        COMMIT is HEAD^ by default.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
commit=${1:-HEAD^}
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
git archive "$commit" proto | tar -x -C "$folder"
cd proto
buf=(npx --yes @bufbuild/buf)
"${buf[@]}" lint
"${buf[@]}" breaking --against "$folder/proto"
echo "== nothing of $commit is broken" >&2
