#!/usr/bin/env bash
# Installs the Python client as a user would, into a fresh virtual environment
# below build/, and runs its tests there. Not part of tests/run.sh: it needs
# PyPI. The tree makes the sdist, that the wheel, that the installation.
#
# usage: tests/python/pip_install.sh TOPKD [REQUIREMENT...]
#        the requirements are versions to test with, e.g. 'protobuf==3.20.3'
set -euo pipefail
if [ $# -lt 1 ] || [ "$1" = --help ]; then
  sed -n '2,7s/^# \{0,1\}//p' "$0"
  exit 2
fi
topkd=$(realpath "$1")
shift
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

folder=build/pip_install
rm -rf "$folder"
python3 -m venv "$folder/venv"
pip() { "$folder/venv/bin/python" -m pip --disable-pip-version-check "$@"; }
pip install -q build
"$folder/venv/bin/python" -m build --outdir "$folder" client/python >&2
# A fresh one: what builds is not there when it is used.
python3 -m venv --clear "$folder/venv"
pip install -q "$folder"/topk_client-*.whl ml_dtypes "$@"
pip list 2>/dev/null
for test in tests/python/client_*_test.py; do
  echo "== $test" >&2
  (cd "$folder" && TOPK_CLIENT=installed venv/bin/python \
    -W error::DeprecationWarning "../../$test" "$topkd")
done
