#!/usr/bin/env bash
# Checks that the .proto files do not break the messages of an earlier commit.
# Not part of tests/run.sh, because buf needs Node.js. Run this script when a
# .proto file changes.
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
npx --yes @bufbuild/buf breaking --against "$folder/proto"
echo "== nothing of $commit is broken" >&2
