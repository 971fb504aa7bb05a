#!/usr/bin/env bash
# Runs a Python test with the modules that tests share; without its interpreter
# says so, and ends as a skipped test does.
#
# usage: skip_without.sh PROGRAM TEST [ARGUMENT...]
set -euo pipefail
if [ ! -x "$1" ]; then
  folder=$(basename "$(dirname "$2")")
  echo "SKIPPED: there is no $1; tests/support/venv.sh $folder makes it" >&2
  exit 77
fi
PYTHONPATH=$(dirname "$0")/python exec "$@"
