#!/usr/bin/env bash
# Triton's load generator against a real topkd: a sweep over the number of calls
# in flight, with the tensor in the message and in system shared memory. Not
# part of tests/run.sh.
#
# usage: tests/clients/oip/perf_analyzer.sh [TOPKD [ELEMENTS [CALLS]]]
#        TOPKD     build/release/bin/topkd
#        ELEMENTS  of the f32 tensor, 262144
#        CALLS     START:END:STEP, 1:4:1
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
topkd=${1:-build/release/bin/topkd} elements=${2:-262144} calls=${3:-1:4:1}

tests/support/venv.sh oip
# shellcheck source=deploy/packages.sh
source deploy/packages.sh
unpack_package libb64-0d build/tools
libraries=$(echo build/oip/lib/python3*/site-packages/nvidia/cuda_runtime/lib)
libraries+=:build/tools/usr/lib/$(uname -m)-linux-gnu
export LD_LIBRARY_PATH=$libraries

folder=$(mktemp -d)
# perf_analyzer chooses the names of its objects, so allow any name.
"$topkd" --listen 127.0.0.1:0 --ready-file "$folder/ready.json" \
  --log-level warn --allow-shared-memory --shared-memory-prefix / &
server=$!
stop() {
  kill "$server" 2>/dev/null && wait "$server"
  rm -rf "$folder"
}
trap stop EXIT
for _ in {1..600}; do
  [ -s "$folder/ready.json" ] && break
  kill -0 "$server"
  sleep 0.1
done
target=$(sed -E 's/.*"listen":\["([^"]+)".*/\1/' "$folder/ready.json")

for memory in none system; do
  echo "== tensor of $elements f32, shared memory: $memory"
  build/oip/bin/perf_analyzer -m onnx_topk -i grpc -u "$target" \
    --service-kind triton --shape "X:$elements" --request-parameter k:10:int \
    --concurrency-range "$calls" --shared-memory "$memory" \
    --measurement-interval 2000 --stability-percentage 50 --max-trials 10
done
