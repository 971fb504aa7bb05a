#!/usr/bin/env bash
# Makes a virtual environment with Triton's client in build/oip, unless it is
# there with just these versions. Needs python3-venv and PyPI.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

wanted=tests/oip/requirements.txt
if cmp -s "$wanted" build/oip/requirements.txt; then exit 0; fi
echo "== installing Triton's client into build/oip" >&2
rm -rf build/oip
trap 'rm -rf build/oip' ERR  # half of it would not be skipped
/usr/bin/python3 -m venv build/oip
build/oip/bin/pip install --quiet --disable-pip-version-check -r "$wanted"
cp "$wanted" build/oip/requirements.txt
