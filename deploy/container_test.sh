#!/usr/bin/env bash
# Builds the Dockerfile and tests the image: its size, label and bill of
# materials; the server as PID 1, without root rights and capabilities, on a
# read-only root; its health check, its metrics, a request from outside, SIGTERM
# and the drain. Uses Docker if its engine runs. Otherwise uses buildah, which
# needs no engine, on a base image made by debootstrap. Without Docker, the test
# needs root, buildah, podman and debootstrap. The test takes 5 to 15 minutes.
# Because of these requirements, the test is not part of tests/run.sh.
#
# usage: deploy/container_test.sh [OPTION...]
# Needs the command topk that deploy/quickstart.sh builds. Options are passed to
# the build, e.g. --build-arg TOPK_WITH_CUDA=ON. For the current gRPC from
# this machine's mirror, pass --build-arg GRPC=current --build-arg GRPC_DATE=
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=deploy/packages.sh
source deploy/packages.sh

topk=build/release/bin/topk
[ -x $topk ] || {
  echo "build it first: deploy/quickstart.sh" >&2
  exit 1
}
image=topkd:container-test
suite=bookworm
case "$*" in *GRPC=current*) suite=trixie ;; esac
# The CUDA backend's kernels make the image larger.
megabytes=120
case "$*" in *TOPK_WITH_CUDA=ON*) megabytes=200 ;; esac
revision=$(git rev-parse HEAD 2>/dev/null || echo unknown)
buildah=(buildah --storage-driver=vfs)
podman=(podman --storage-driver=vfs)
work=$(mktemp -d)
engine=buildah
if docker info >/dev/null 2>&1; then engine=docker; fi
container=
server=
step() { echo "== $*" >&2; }

cleanup() {
  if [ -n "$server" ]; then kill -KILL "$server" 2>/dev/null || true; fi
  if [ -n "$container" ] && [ $engine = docker ]; then
    docker rm -f "$container" >/dev/null 2>&1 || true
  elif [ -n "$container" ]; then
    "${buildah[@]}" rm "$container" >/dev/null || true
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

# Returns whether the health check reports a draining server.
not_serving() {
  local answer
  answer=$("${buildah[@]}" run --isolation chroot "$container" -- \
    "${probe[@]}") || true
  [ "$answer" = NOT_SERVING ]
}

# Compares the server's answer with one that topk computes locally.
ask() {
  $topk run deploy/data/digits_similarity.npy --k 5 --json --target "$1" \
    >"$work/remote.json"
  $topk run deploy/data/digits_similarity.npy --k 5 --json --local \
    >"$work/local.json"
  # Remove the execution information, which may differ.
  for side in remote local; do
    sed 's/"execution":{[^}]*},//' "$work/$side.json" >"$work/$side.answer"
  done
  cmp "$work/remote.answer" "$work/local.answer"
  step "an answer of $(wc -c <"$work/remote.answer") bytes is right"
}

# Reads the metrics at host:port, without tools that may not be installed.
scrape() {
  exec 3<>"/dev/tcp/${1%:*}/${1##*:}"
  printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3
  cat <&3 >"$work/metrics"
  exec 3>&-
  grep -q '^topk_ready 1' "$work/metrics"
  step "$(grep -c '^[a-z]' "$work/metrics") samples of metrics"
}

# Creates the base image, a minimal Debian, without a registry.
make_base() {
  if ! "${podman[@]}" image exists debian:$suite-slim; then
    step "making the base image with debootstrap"
    debootstrap --variant=minbase --include=ca-certificates $suite \
      "$work/root" "$(debian_mirror)" >"$work/log" || {
      tail "$work/log" >&2
      return 1
    }
    # Remove what Debian's slim images lack, so that sizes are comparable.
    (cd "$work/root" && rm -rf var/cache/apt/* var/lib/apt/lists/* \
      var/log/* usr/share/{info,man,locale,i18n,lintian}/* &&
      find usr/share/doc ! -type d ! -name copyright -delete)
    # Use this machine's apt settings to reach packages.
    cp /etc/apt/apt.conf.d/* "$work/root/etc/apt/apt.conf.d/" 2>/dev/null ||
      true
    cat >"$work/root/etc/dpkg/dpkg.cfg.d/slim" <<'END'
path-exclude /usr/share/doc/*
path-include /usr/share/doc/*/copyright
path-exclude /usr/share/info/*
path-exclude /usr/share/man/*
path-exclude /usr/share/locale/*
END
    tar -C "$work/root" -c . |
      "${podman[@]}" import - debian:$suite-slim >/dev/null
    rm -rf "$work/root"
  fi
  "${podman[@]}" tag debian:$suite-slim debian:$suite
}

size() { "${buildah[@]}" images --format '{{.Size}}' "$1" | head -n 1; }

# Print a field of the image's configuration, or a list with one item per line.
config() { "${buildah[@]}" inspect --format "{{$1}}" $image; }
config_list() {
  config "range .Docker.Config.$1}}{{println .}}{{end" | sed '/^$/d'
}

# Checks the image in a root folder: the bill of materials names topkd and each
# installed package exactly once, the labels exist, and the size is small.
inspect() {
  local root=$1 bill=$1/usr/share/sbom/topkd.spdx bytes
  comm -13 <(sed -n 's/^PackageName: //p' "$bill" | sort) \
    <({ dpkg-query --admindir="$root/var/lib/dpkg" -W -f '${Package}\n'
      echo topkd; } | sort) >"$work/unnamed"
  [ ! -s "$work/unnamed" ]
  sed -n 's/^SPDXID: //p' "$bill" | sort | uniq -d >"$work/twice"
  [ ! -s "$work/twice" ]
  step "$(grep -c ^PackageName: "$bill") packages in the bill of materials"
  bytes=$(du -sb --one-file-system "$root" | cut -f 1)
  step "image: $((bytes / 1000000)) MB of files"
  [ "$bytes" -lt $((megabytes * 1000000)) ]
}

# Runs a command in a root folder as an engine would: with a read-only root, a
# new PID namespace and an unprivileged user. chroot and setpriv run last,
# because the other steps need the privileges that they drop.
contain() {
  local root=$1 user=$2
  shift 2
  # shellcheck disable=SC2016  # expanded by the inner shell
  exec unshare --mount --pid --fork bash -euc '
    root=$1 user=$2
    shift 2
    mount --bind "$root" "$root"
    mount -t proc proc "$root/proc"
    mount -o remount,bind,ro "$root"
    if touch "$root/written" 2>/dev/null; then
      echo "the root is not read-only" >&2
      exit 1
    fi
    exec chroot "$root" /usr/bin/setpriv --reuid="${user%:*}" \
      --regid="${user#*:}" --clear-groups --no-new-privs --inh-caps=-all \
      --bounding-set=-all /usr/bin/env -i "$@"' contain "$root" "$user" "$@"
}

if [ $engine = docker ]; then
  step "building with docker"
  docker build -t $image --build-arg REVISION="$revision" "$@" .
  container=$(docker run -d --read-only --cap-drop ALL \
    --security-opt no-new-privileges -p 127.0.0.1::50051 -p 127.0.0.1::9464 \
    $image)
  target=$(docker port "$container" 50051 | head -n 1)
  wait_for sh -c "docker inspect $container | grep -q '\"healthy\"'"
  ask "$target"
  scrape "$(docker port "$container" 9464 | head -n 1)"
  step "sending SIGTERM"
  docker stop -t 30 "$container" >/dev/null
  status=$(docker inspect -f '{{.State.ExitCode}}' "$container")
else
  make_base
  step "building with buildah"
  # Set GRPC, because buildah 1.28 mistakes its default stage for an image.
  "${buildah[@]}" bud --format docker --isolation chroot -t $image \
    --build-arg REVISION="$revision" --build-arg GRPC=debian12 "$@" .
  label=org.opencontainers.image.revision
  [ "$(config "index .Docker.Config.Labels \"$label\"")" = "$revision" ]
  container=$("${buildah[@]}" from $image)
  mount=$("${buildah[@]}" mount "$container")
  inspect "$mount"
  user=$(config .Docker.Config.User)
  mapfile -t variables < <(config_list Env)
  mapfile -t command < <(config_list Entrypoint && config_list Cmd)
  mapfile -t probe < <(config_list Healthcheck.Test | sed 1d)  # drops "CMD"
  step "image: $(size $image) on a base of $(size debian:$suite-slim); user" \
    "$user; ${command[*]}; check: ${probe[*]}"
  # The container shares the host's network, so use free ports instead of the
  # image's.
  port=$((20000 + RANDOM % 10000))
  contain "$mount" "$user" "${variables[@]}" TOPKD_LISTEN=127.0.0.1:$port \
    TOPKD_METRICS_LISTEN=127.0.0.1:$((port + 1)) \
    TOPKD_HEALTH_LISTEN=127.0.0.1:$((port + 2)) "${command[@]}" &
  probe=("${probe[@]//:50052/:$((port + 2))}")
  unshare=$!
  wait_for grep -q . "/proc/$unshare/task/$unshare/children"
  server=$(tr -d ' ' <"/proc/$unshare/task/$unshare/children")
  wait_for "${buildah[@]}" run --isolation chroot "$container" -- \
    "${probe[@]}"
  grep -E '^(Uid|NSpid|CapEff|CapBnd|NoNewPrivs)' "/proc/$server/status" >&2
  ask 127.0.0.1:$port
  scrape 127.0.0.1:$((port + 1))
  step "sending SIGTERM"
  kill -TERM "$server"
  wait_for not_serving
  step "it drains: the health check hears that it does not serve"
  status=0
  wait $unshare || status=$?
  server=
  if "${buildah[@]}" run --isolation chroot "$container" -- "${probe[@]}" \
    >/dev/null 2>&1; then
    step "the health check finds a server that has stopped"
    exit 1
  fi
fi
step "the server ended with status $status"
[ "$status" -eq 0 ]
