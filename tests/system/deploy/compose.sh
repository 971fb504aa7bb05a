#!/usr/bin/env bash
# Has the reference implementation of Compose's specification read the compose
# file: unknown keys and wrong values are errors. The files that it mounts must
# exist. Not part of tests/run.sh: it needs Go 1.24 or newer, and the network the
# first time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../../deploy/compose"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The program does not read variables, so it gets their defaults.
sed -E 's/\$\{\w+:-([^}]*)\}/\1/g; s/\$\{\w+:\?[^}]*\}/secret/g' compose.yaml \
  >"$work/compose.yaml"
COMPOSE_PROFILES=envoy \
  go run github.com/compose-spec/compose-go/v2/cmd@v2.16.2 \
  "$work/compose.yaml" >"$work/model.yaml"
sed -n 's/^ *- \(\.\.[^:]*\):.*/\1/p' "$work/compose.yaml" |
  grep -v '/build/' >"$work/mounted"
while read -r file; do
  [ -e "$file" ] || {
    echo "compose.yaml mounts $file, which does not exist" >&2
    exit 1
  }
done <"$work/mounted"
echo "== compose.yaml is valid, and $(wc -l <"$work/mounted") mounted files exist"
