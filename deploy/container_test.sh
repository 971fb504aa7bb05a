#!/usr/bin/env bash
# Builds the Dockerfile and tries the image: the server as a user who is not
# root on a read-only root, its health check, a request from outside, SIGTERM.
# With Docker where its engine runs; otherwise with buildah, which needs none
# (as root, with buildah, podman and debootstrap installed), on a base image
# made by debootstrap. Takes about 10 minutes. Not part of the two commands: it
# needs what a newcomer's machine may not allow.
#
# usage: deploy/container_test.sh      after deploy/quickstart.sh, for its topk
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

topk=build/release/bin/topk
[ -x $topk ] || {
  echo "build it first: deploy/quickstart.sh" >&2
  exit 1
}
image=topkd:container-test
work=$(mktemp -d)
container=
step() { echo "== $*" >&2; }

cleanup() {
  if [ -n "$container" ] && [ "$engine" = docker ]; then
    docker rm -f "$container" >/dev/null 2>&1 || true
  fi
  if [ "$engine" = buildah ]; then
    [ -z "$container" ] || $buildah rm "$container" >/dev/null || true
  fi
  rm -rf "$work"
}
trap cleanup EXIT

# Polls a command for up to 30 s.
wait_for() {
  for _ in $(seq 150); do
    if "$@" >/dev/null 2>&1; then return 0; fi
    sleep 0.2
  done
  step "gave up waiting for: $*"
  return 1
}

ask() {
  TOPK_TARGET="$1" $topk run deploy/data/digits_similarity.npy --k 5 --json \
    >"$work/remote.json"
  $topk run deploy/data/digits_similarity.npy --k 5 --json --local \
    >"$work/local.json"
  # All but how it was computed.
  for side in remote local; do
    sed 's/"execution":{[^}]*},//' "$work/$side.json" >"$work/$side.answer"
  done
  cmp "$work/remote.answer" "$work/local.answer"
  step "an answer of $(wc -c <"$work/remote.answer") bytes is right"
}

if docker info >/dev/null 2>&1; then
  engine=docker
  step "building with docker"
  docker build -t $image .
  container=$(docker run -d --read-only --cap-drop ALL \
    --security-opt no-new-privileges -p 127.0.0.1::50051 $image)
  target=$(docker port "$container" 50051 | head -n 1)
  wait_for docker exec "$container" /usr/bin/topkd healthcheck
  ask "$target"
  docker stop -t 30 "$container" >/dev/null
  status=$(docker inspect -f '{{.State.ExitCode}}' "$container")
else
  engine=buildah
  buildah="buildah --storage-driver=vfs"
  if ! podman --storage-driver=vfs image exists debian:bookworm-slim; then
    step "making the base image with debootstrap"
    debootstrap --variant=minbase bookworm "$work/root" >"$work/log" ||
      { tail "$work/log" >&2 && exit 1; }
    # The build reaches packages as this machine does.
    cp /etc/apt/apt.conf.d/* "$work/root/etc/apt/apt.conf.d/" 2>/dev/null ||
      true
    tar -C "$work/root" -c . |
      podman --storage-driver=vfs import - debian:bookworm-slim >/dev/null
    rm -rf "$work/root"
  fi
  podman --storage-driver=vfs tag debian:bookworm-slim debian:bookworm
  step "building with buildah"
  $buildah bud --format docker --isolation chroot -t $image .
  container=$($buildah from $image)
  mount=$($buildah mount "$container")
  # chroot isolation shares the network; read-only is what the user 65532 sees:
  # the server has nothing it may write to but /tmp.
  step "running as $($buildah inspect --format '{{.Docker.Config.User}}' \
    $image), health check $($buildah inspect \
    --format '{{.Docker.Config.Healthcheck.Test}}' $image)"
  port=$((20000 + RANDOM % 10000))
  chroot --userspec=65532:65532 "$mount" /usr/bin/env -i MALLOC_ARENA_MAX=4 \
    TOPKD_LISTEN=127.0.0.1:$port TOPKD_METRICS_LISTEN=127.0.0.1:0 \
    /usr/bin/topkd &
  server=$!
  wait_for chroot --userspec=65532:65532 "$mount" /usr/bin/topkd healthcheck \
    --target 127.0.0.1:$port
  ask 127.0.0.1:$port
  kill -TERM $server
  status=0
  wait $server || status=$?
fi
step "the server ended with status $status"
[ "$status" -eq 0 ]
