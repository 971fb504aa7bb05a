#!/usr/bin/env bash
# Tests the image, the Compose file and the Helm chart in a real Docker engine
# and a real Kubernetes cluster on this machine.
#
# usage: run.sh [--keep] [ARGUMENT...]
#
# --keep     leaves the engine and the cluster running; end them with
#            cluster.sh down
# ARGUMENT   of kubernetes.py, e.g. --only defaults
#
# Needs root, Go 1.24 and build/dev/bin/topk. Takes 25 minutes on two cores the
# first time, when it builds Kubernetes, and then 15. Exits with 77 if the
# machine cannot run a cluster.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
here=tests/system/cluster

skip() {
  echo "SKIPPED: $*" >&2
  exit 77
}
[ "$(id -u)" -eq 0 ] || skip "a container engine needs root"
command -v go >/dev/null || skip "Kubernetes is built with Go 1.24, which is missing"
if ! [ -w /proc/sys/net/ipv4/ip_forward ]; then
  skip "this container is not privileged: it may not change the network"
fi
if [ "$(nproc)" -lt 2 ] ||
  [ "$(awk '/^MemTotal/ { print $2 }' /proc/meminfo)" -lt 6000000 ]; then
  skip "a cluster needs 2 CPUs and 6 GB of memory"
fi
keep=false
if [ "${1:-}" = --keep ]; then
  keep=true
  shift
fi

# Debian's Docker client supports BuildKit without a plugin.
export DOCKER_BUILDKIT=1 PATH=/usr/bin:$PATH
home=${TOPK_CLUSTER:-${XDG_CACHE_HOME:-$HOME/.cache}/topk-cluster}
if ! docker compose version >/dev/null 2>&1; then
  export DOCKER_CONFIG=$home/docker-config
fi
cleanup() { $keep || $here/cluster.sh down; }
trap cleanup EXIT

$here/cluster.sh docker
$here/image.sh
TOPKD_IMAGE=topkd:0.1.0 $here/compose.sh

# A stand-in for the chart's HAProxy image.
docker build -q --network host --tag haproxy:2.6 - >/dev/null <<'DOCKERFILE'
FROM debian:bookworm-slim
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends haproxy
STOPSIGNAL SIGUSR1
DOCKERFILE
tests/support/venv.sh cluster
build/cluster/bin/pip install -q --no-deps --force-reinstall ./client/python
clients=$(mktemp -d)
cp -r $here/client/Dockerfile build/cluster/lib/python3*/site-packages/. "$clients"
docker build -q --network host --tag topk/clients "$clients" >/dev/null
rm -rf "$clients"

$here/cluster.sh up
$here/cluster.sh load topkd:0.1.0 haproxy:2.6 topk/clients
PATH=$home/bin:$PATH KUBECONFIG=$home/run/admin.conf \
  PYTHONPATH=tests/support/python python3 $here/kubernetes.py "$@"
