#!/usr/bin/env bash
# Compares topkd over the wire with a no-op server, a Python server, raw TCP and
# Arrow Flight, in turn, in one run: a line of JSON for each row on stdout, then
# the targets and whether they are met on stderr.
#
# usage: tests/bench/service.sh [--seconds S] [--only PATH[,PATH]]
#                               [--max-bytes N] [--quick] [--json FILE]
#                               [--servers FOLDER]
#
# --seconds S    for each row and server (3)
# --only PATH    unary, oip, stream, peers, many, unix, shm, python, idle,
#                memory
# --max-bytes N  the size of the largest tensor, in bytes (256 MiB)
# --quick        a little of everything, to see that it works
# --json FILE    writes the lines of JSON there too, for service/report.py
# --servers FOLDER  runs topkd and the null server of a chroot, which has them
#                below build/bench (see tests/quality/grpc_current.sh)
set -euo pipefail

usage() { sed -n '2,17s/^# \{0,1\}//p' tests/bench/service.sh; }

caller=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
only='' json='' servers='' arguments=()
while [ $# -gt 0 ]; do
  case "$1" in
    -h | --help) usage && exit ;;
    --quick) arguments+=("$1") && shift && continue ;;
    --seconds | --only | --max-bytes | --json | --servers) ;;
    *) echo "service.sh: unknown argument: $1" >&2 && usage >&2 && exit 2 ;;
  esac
  if [ $# -lt 2 ]; then echo "service.sh: $1 needs a value" >&2 && exit 2; fi
  case "$1" in
    --only) only=$2 ;;&
    --json) json=$(cd "$caller" && realpath -m "$2") ;;
    --servers) servers=$(cd "$caller" && realpath "$2") ;;
    *) arguments+=("$1" "$2") ;;
  esac
  shift 2
done

# wants PATH: whether it is to be measured
wants() { [[ -z $only || ,$only, == *",$1,"* ]]; }

# shellcheck source=tests/bench/build.sh
source tests/bench/build.sh
build_bench service_bench topk_server
packages=()
if wants peers; then packages+=(numpy pyarrow); fi
if wants python; then packages+=(numpy onnx onnxruntime grpcio grpcio-tools); fi
if [ ${#packages[@]} -gt 0 ]; then install_python "${packages[@]}"; fi

work=$(mktemp -d)
shared_memory=topk-bench-$$
cleanup() {
  # shellcheck disable=SC2046  # a list of process ids
  kill $(jobs -p) 2>/dev/null || true
  wait
  rm -rf "$work" "/dev/shm/$shared_memory"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# A server of a chroot runs with the chroot's loader and libraries.
server=()
if [ -n "$servers" ]; then
  server=("$servers/lib64/ld-linux-x86-64.so.2" --library-path
    "$servers/usr/lib/x86_64-linux-gnu")
fi

# start NAME COMMAND...: a server, which writes its address into $work/NAME
start() {
  local name=$1
  shift
  "$@" >&2 &
  pid=$!
  for _ in $(seq 600); do
    if [ -e "$work/$name" ]; then return; fi
    if ! kill -0 "$pid" 2>/dev/null; then break; fi
    sleep 0.1
  done
  echo "service.sh: $name does not serve" >&2
  return 1
}

# start_topkd NAME FLAG...: starts topkd on a free port and sets $address
start_topkd() {
  local name=$1
  shift
  start "$name" "${server[@]}" "${servers:-.}/build/bench/bin/topkd" \
    --listen 127.0.0.1:0 --ready-file "$work/$name" --log-level warn "$@"
  address=$(sed -nE 's/.*"listen": *\["([^"]*)".*/\1/p' "$work/$name")
}

start_topkd topkd --listen "unix:$work/topkd.socket" \
  --max-message-bytes 2147483647 --allow-shared-memory
arguments+=(--topkd "$address" --topkd-unix "unix:$work/topkd.socket")
start null "${server[@]}" "${servers:-.}/build/bench/bin/service_bench" \
  --mode null --listen 127.0.0.1:0 --listen "unix:$work/null.socket" \
  --ready-file "$work/null"
arguments+=(--null "$(cat "$work/null")" --null-unix "unix:$work/null.socket")
if wants python; then
  start python "$peers_venv/bin/python" tests/bench/service/python_server.py \
    proto "$work/python"
  arguments+=(--python "$(cat "$work/python")")
fi
if wants peers; then
  flight=("$peers_venv/bin/python" tests/bench/service/flight.py)
  start flight "${flight[@]}" serve "$work/flight"
  arguments+=(--flight "$(cat "$work/flight")"
    --flight-client "${flight[*]} send")
fi
if wants memory; then
  for name in long mixed; do
    start_topkd "$name"
    arguments+=("--$name" "$address" "--$name-pid" "$pid")
  done
fi

# In the background, so that a signal ends this script at once.
rows=${json:-$work/rows}
exec 3> >(exec tee "$rows")
tee=$!
build/bench/bin/service_bench --shared-memory "/$shared_memory" \
  "${arguments[@]}" >&3 &
exec 3>&-
wait $!
wait "$tee"
/usr/bin/python3 tests/bench/service/report.py --targets "$rows" >&2
