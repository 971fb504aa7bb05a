#!/usr/bin/env bash
# Creates a virtual environment in build/NAME with the PyPI packages in
# tests/*/NAME/requirements.txt, unless it is up to date. Needs python3-venv.
#
# usage: tests/support/venv.sh cluster | oip | scale | servers | types
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

requirements=$(echo tests/*/"$1"/requirements.txt)
venv=build/$1
if cmp -s "$requirements" "$venv/requirements.txt"; then exit 0; fi
echo "== installing the packages of $requirements into $venv" >&2
rm -rf "$venv"
trap 'rm -rf "$venv"' ERR  # leave no incomplete environment
/usr/bin/python3 -m venv "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check -r "$requirements"
cp "$requirements" "$venv/requirements.txt"
