#!/usr/bin/env bash
# Runs a command; without its program says so, and ends as a skipped test does.
#
# usage: skip_without.sh PROGRAM TEST [ARGUMENT...]
set -euo pipefail
if [ ! -x "$1" ]; then
  folder=$(basename "$(dirname "$2")")
  echo "SKIPPED: there is no $1; tests/support/venv.sh $folder makes it" >&2
  exit 77
fi
exec "$@"
