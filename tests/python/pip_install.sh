#!/usr/bin/env bash
# Installs the Python client as a user would, into fresh virtual environments
# below build/, and runs its tests there. Not part of tests/run.sh: it needs
# PyPI. The tree makes the sdist, the sdist makes the wheel; both are installed
# with neither protoc nor a compiler within reach.
#
# usage: tests/python/pip_install.sh TOPKD [--python PYTHON]... [REQUIREMENT...]
#        PYTHON is an interpreter to install for, python3 by default; the first
#        one builds. The requirements are versions to test with, for example
#        'protobuf==3.20.3'.
set -euo pipefail
if [ $# -lt 1 ] || [ "$1" = --help ]; then
  sed -n '2,10s/^# \{0,1\}//p' "$0"
  exit 2
fi
topkd=$(realpath "$1")
shift
pythons=()
while [ "${1:-}" = --python ]; do
  pythons+=("$2")
  shift 2
done
if [ ${#pythons[@]} -eq 0 ]; then pythons=(python3); fi
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

folder=$PWD/build/pip_install
rm -rf "$folder"
pip() { "$folder/venv/bin/python" -m pip --disable-pip-version-check "$@"; }

"${pythons[0]}" -m venv "$folder/venv"
pip install -q build
"$folder/venv/bin/python" -m build --outdir "$folder" client/python >&2

# Programs that fail where a compiler or protoc would be found.
mkdir "$folder/without"
for program in protoc cc c++ gcc g++ clang clang++; do
  printf '#!/bin/sh\necho "%s was run" >&2\nexit 1\n' "$program" \
    >"$folder/without/$program"
  chmod +x "$folder/without/$program"
done

for python in "${pythons[@]}"; do
  for made in "$folder"/topk_client-*.tar.gz "$folder"/topk_client-*.whl; do
    echo "== $("$python" --version), $(basename "$made")" >&2
    "$python" -m venv --clear "$folder/venv"
    PATH="$folder/without:$PATH" pip install -q "$made" ml_dtypes "$@"
    pip list 2>/dev/null
    for test in tests/python/client_*_test.py; do
      echo "== $test" >&2
      (cd "$folder" && TOPK_CLIENT=installed venv/bin/python \
        -W error::DeprecationWarning "../../$test" "$topkd")
    done
  done
done
