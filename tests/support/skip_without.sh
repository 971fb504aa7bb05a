#!/usr/bin/env bash
# Runs a Python test with the modules in support/python. Reports the test as
# skipped if its interpreter is missing.
#
# usage: skip_without.sh PROGRAM TEST [ARGUMENT...]
set -euo pipefail
if [ ! -x "$1" ]; then
  folder=$(basename "$(dirname "$2")")
  echo "SKIPPED: $1 is missing; tests/support/venv.sh $folder creates it" >&2
  exit 77
fi
PYTHONPATH=$(dirname "$0")/python exec "$@"
