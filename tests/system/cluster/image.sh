#!/usr/bin/env bash
# Builds the image topkd:0.1.0 from the Dockerfile and tests the image's size,
# labels and bill of materials. Then runs the server as another user, on a
# read-only root and without capabilities, and tests the health check, a
# response, the metrics and the drain.
#
# usage: image.sh [OPTION...]    options of `docker build`, e.g. for CUDA:
#        --build-arg TOPK_WITH_CUDA=ON
# Needs a Docker engine (cluster.sh docker) and build/dev/bin/topk.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
# shellcheck source=tests/system/cluster/wait_for.sh
source tests/system/cluster/wait_for.sh

image=topkd:0.1.0
topk=${TOPK:-build/dev/bin/topk}
megabytes=120
case "$*" in *TOPK_WITH_CUDA=ON*) megabytes=200 ;; esac  # with the kernels
work=$(mktemp -d)
container=
cleanup() {
  local status=$?
  if [ -n "$container" ]; then
    [ $status = 0 ] || docker logs "$container" >&2
    docker rm -f "$container" >/dev/null
  fi
  rm -rf "$work"
}
trap cleanup EXIT
step() { echo "== $*" >&2; }

state() { docker inspect -f "{{.State.$1}}" "$container"; }
# The server's response is the one that topk computes locally.
check_response() {
  diff <($topk run deploy/data/digits_similarity.npy --k 5 --target "$target") \
    <($topk run deploy/data/digits_similarity.npy --k 5 --local)
}
has_state() { [ "$(state "$1")" = "$2" ]; }

revision=$(git rev-parse HEAD)
# The host's network may have a mirror of Debian's packages.
docker build --network host --tag $image --tag topkd \
  --build-arg REVISION="$revision" "$@" . >"$work/log" 2>&1 || {
  tail -n 30 "$work/log" >&2
  exit 1
}
step "built in $SECONDS s"

label=org.opencontainers.image.revision
[ "$(docker inspect -f "{{index .Config.Labels \"$label\"}}" $image)" = "$revision" ]
in_image() { docker run --rm --user 0 --entrypoint "$1" $image "${@:2}"; }
# The bill of materials names topkd and each installed package exactly once.
in_image cat /usr/share/sbom/topkd.spdx >"$work/bill"
{
  # shellcheck disable=SC2016  # dpkg-query expands ${Package}
  in_image dpkg-query -W -f '${Package}\n'
  echo topkd
} | sort >"$work/installed"
sed -n 's/^PackageName: //p' "$work/bill" | sort -u >"$work/named"
[ -z "$(comm -23 "$work/installed" "$work/named")" ]
[ -z "$(sed -n 's/^SPDXID: //p' "$work/bill" | sort | uniq -d)" ]
bytes=$(in_image du -sbx / | cut -f 1)
step "$((bytes / 1000000)) MB of files, $(wc -l <"$work/named") packages in" \
  "the bill of materials"
[ "$bytes" -lt $((megabytes * 1000000)) ]

container=$(docker run -d --read-only --cap-drop ALL --user 12345:12345 \
  --security-opt no-new-privileges --memory 512m \
  -p 127.0.0.1::50051 -p 127.0.0.1::9464 $image)
wait_for has_state Health.Status healthy
target=$(docker port "$container" 50051 | head -n 1)
check_response
metrics=$(docker port "$container" 9464 | head -n 1)
curl -sS "http://$metrics/metrics" >"$work/metrics"
grep -qx 'topk_ready 1' "$work/metrics"
step "healthy, the response is right, $(grep -c '^[a-z]' "$work/metrics")" \
  "metrics"
case "$*" in
  *TOPK_WITH_CUDA=ON*)  # without --gpus
    docker logs "$container" 2>&1 |
      grep -F 'backend cuda is not used: this machine has no NVIDIA driver'
    ;;
esac

# A draining server reports NOT_SERVING, and still answers.
docker stop --time 40 "$container" >/dev/null &
not_serving() {
  ! docker exec "$container" topk health --target 127.0.0.1:50052
}
wait_for not_serving
check_response
wait $!
[ "$(state ExitCode)" = 0 ]
step "docker stop drains the server: $(docker logs "$container" 2>&1 | tail -n 1)"
