#!/usr/bin/env bash
# Checks the compose file with the reference implementation of the Compose
# specification, which rejects unknown keys and wrong values. Mounted files must
# exist. Not part of tests/run.sh, because it needs Go 1.24 or newer and, the
# first time, the network.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../../deploy/compose"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The program does not read variables. Substitute their defaults.
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
