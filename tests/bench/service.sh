#!/usr/bin/env bash
# topkd over the wire beside a server that does nothing with the same messages,
# in turn, in one run: a line of JSON for each path, size and number of callers.
#
# usage: tests/bench/service.sh [--seconds=S] [--only=unary|stream]
#                               [--most=BYTES]
set -euo pipefail

case "${1:-}" in
  -h | --help)
    sed -n '2,6s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
esac
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=tests/bench/build.sh
source tests/bench/build.sh
build_bench service_bench topk_server

work=$(mktemp -d)
cleanup() {
  # shellcheck disable=SC2046  # a list of process ids
  kill $(jobs -p) 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT
build/bench/bin/topkd --listen 127.0.0.1:0 --metrics-listen 127.0.0.1:0 \
  --ready-file "$work/topkd.json" --log-level warn &
build/bench/bin/service_bench --mode=null --listen=127.0.0.1:0 \
  --ready-file="$work/null" &
for _ in $(seq 300); do
  if [ -e "$work/topkd.json" ] && [ -e "$work/null" ]; then break; fi
  sleep 0.1
done
topkd=$(sed -nE 's/.*"listen": *\["([^"]*)".*/\1/p' "$work/topkd.json")
build/bench/bin/service_bench --topkd="$topkd" --null="$(cat "$work/null")" \
  "$@"
