#!/usr/bin/env bash
# Creates a virtual environment in build/NAME with the PyPI packages in
# tests/*/NAME/requirements.txt, unless up to date. Needs python3-venv and PyPI.
#
# usage: tests/support/venv.sh oip | servers | types
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

wanted=$(echo tests/*/"$1"/requirements.txt)
made=build/$1
if cmp -s "$wanted" "$made/requirements.txt"; then exit 0; fi
echo "== installing what $wanted names of PyPI into $made" >&2
rm -rf "$made"
trap 'rm -rf "$made"' ERR  # an incomplete folder would look up to date
/usr/bin/python3 -m venv "$made"
"$made/bin/pip" install --quiet --disable-pip-version-check -r "$wanted"
cp "$wanted" "$made/requirements.txt"
