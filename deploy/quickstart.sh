#!/usr/bin/env bash
# Installs the packages on Debian 12, builds topkd and topk, starts the server,
# finds similar images of handwritten digits with it, and stops it.
set -euo pipefail

if [ $# -gt 0 ]; then
  sed -n '2,3s/^# //p' "$0"
  [ "$1" = --help ] && exit 0
  exit 2
fi
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=deploy/packages.sh
source deploy/packages.sh

step() { echo "== $*" >&2; }

install_packages "${TOPK_BUILD_PACKAGES[@]}"
step "building (minutes the first time)"
cmake --preset release >&2
cmake --build --preset release >&2

work=$(mktemp -d)
server=
cleanup() {
  if [ -n "$server" ]; then kill "$server" 2>/dev/null || true; fi
  rm -rf "$work"
}
trap cleanup EXIT

step "starting the server on a free port of this machine"
build/release/bin/topkd --listen 127.0.0.1:0 --metrics-listen 127.0.0.1:0 \
  --ready-file "$work/ready.json" --log-level warn &
server=$!
for _ in $(seq 300); do
  if [ -e "$work/ready.json" ] || ! kill -0 "$server" 2>/dev/null; then
    break
  fi
  sleep 0.1
done
if [ ! -e "$work/ready.json" ]; then
  step "the server did not start within 30 s"
  exit 1
fi
target=$(sed -n 's/.*"listen":\["\([^"]*\)".*/\1/p' "$work/ready.json")

step "topk run: the 5 images most similar to each query, as similarity @image"
build/release/bin/topk run deploy/data/digits_similarity.npy --k 5 \
  --target "$target"

step "stopping the server"
kill -TERM "$server"
status=0
wait "$server" || status=$?
server=
if [ "$status" -ne 0 ]; then
  step "the server ended with status $status"
  exit 1
fi
cat >&2 <<'END'
== done. To go on:
   build/release/bin/topkd --listen 127.0.0.1:50051 &
   build/release/bin/topk run deploy/data/digits_similarity.npy --k 3
   build/release/bin/topk --help;  README.md
END
