#!/usr/bin/env bash
# A Docker engine and a Kubernetes cluster of two nodes on this machine, without
# a registry. Each node has 2 CPUs, and 4 GiB of memory for pods.
#
# usage: cluster.sh up | docker | load IMAGE... | down
#
# up      builds Kubernetes, CoreDNS and Helm from their Go modules (10 minutes
#         on two cores, once; kept in ~/.cache), and starts everything
# docker  only starts a Docker engine if none runs, builds Compose (3 minutes,
#         once), and makes Debian's base images if they are missing
# load    copies images from Docker to the nodes
# down    ends everything that this script started
#
# Needs root, Debian 12 and Go 1.24. The commands kubectl and helm are in
# $TOPK_CLUSTER/bin, and their configuration is $TOPK_CLUSTER/run/admin.conf.
# The default of TOPK_CLUSTER is ~/.cache/topk-cluster. Docker keeps its images,
# including stand-ins for those of Debian, HAProxy and Prometheus.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=deploy/packages.sh
source "$here/../../../deploy/packages.sh"
# shellcheck source=tests/system/cluster/wait_for.sh
source "$here/wait_for.sh"

home=${TOPK_CLUSTER:-${XDG_CACHE_HOME:-$HOME/.cache}/topk-cluster}
bin=$home/bin
run=$home/run
pids=/run/topk-cluster  # empty after a reboot
kubernetes=1.33.13
coredns=1.12.4
helm=3.18.6
compose=2.40.3
nodes=(node1 node2)
export PATH=$bin:$PATH KUBECONFIG=$run/admin.conf

step() { echo "== $*" >&2; }

# Returns whether a service is running.
runs() { kill -0 "$(cat "$pids/$1" 2>/dev/null)" 2>/dev/null; }

# service NAME COMMAND...: starts a program in the background, unless it is
# already running.
service() {
  local name=$1
  shift
  if runs "$name"; then return; fi
  setsid "$@" >"$run/log/$name" 2>&1 </dev/null &
  echo $! >"$pids/$name"
}

# build_module NAME MODULE: builds a program in $bin, unless it exists.
build_module() {
  if [ -x "$bin/$1" ]; then return; fi
  step "building $1"
  GOFLAGS='' GOBIN=$bin go install "$2"
}

go_module() { GOFLAGS=-mod=mod CGO_ENABLED=0 go "$@"; }

# `go install` cannot build Kubernetes, because its go.mod replaces modules.
build_kubernetes() {
  local all=$bin/kube-$kubernetes source=$home/source module
  if [ ! -x "$all" ]; then
    step "building Kubernetes $kubernetes"
    mkdir -p "$source"
    cp "$here/kube/main.go" "$source"
    {
      echo "module kube"
      echo "go 1.24"
      echo "require k8s.io/kubernetes v$kubernetes"
      for module in api apiextensions-apiserver apimachinery apiserver \
        cli-runtime client-go cloud-provider cluster-bootstrap code-generator \
        component-base component-helpers controller-manager cri-api cri-client \
        csi-translation-lib dynamic-resource-allocation endpointslice \
        externaljwt kms kube-aggregator kube-controller-manager kube-proxy \
        kube-scheduler kubectl kubelet metrics mount-utils \
        pod-security-admission sample-apiserver sample-cli-plugin \
        sample-controller; do
        echo "replace k8s.io/$module => k8s.io/$module v0.${kubernetes#1.}"
      done
    } >"$source/go.mod"
    local version=k8s.io/component-base/version
    (
      cd "$source"
      go_module mod tidy
      go_module build -o "$all" -ldflags "-s -w -X $version.gitVersion=v$kubernetes \
        -X $version.gitMajor=1 -X $version.gitMinor=${kubernetes:2:2}" .
    ) >"$run/log/build" 2>&1 || {
      tail "$run/log/build" >&2
      return 1
    }
  fi
  for module in kube-apiserver kube-controller-manager kube-scheduler \
    kube-proxy kubelet kubectl; do
    ln -sf "kube-$kubernetes" "$bin/$module"
  done
}

# Builds the plugin `docker compose`, which Debian's docker.io lacks. Its go.mod
# replaces modules, too.
build_compose() {
  local source=$home/compose plugin=$home/docker-config/cli-plugins/docker-compose
  if docker compose version >/dev/null 2>&1 || [ -x "$plugin" ]; then return; fi
  step "building Compose $compose"
  mkdir -p "$source"
  (
    cd "$source"
    [ -e go.mod ] || go mod init compose
    go_module get "github.com/docker/compose/v2/cmd@v$compose"
    go_module build -o "$plugin" github.com/docker/compose/v2/cmd
  ) >"$run/log/build-compose" 2>&1 || {
    tail "$run/log/build-compose" >&2
    return 1
  }
}

start_docker() {
  mkdir -p "$pids" "$run/log"
  if ! docker info >/dev/null 2>&1; then
    install_packages docker.io iptables
    step "starting Docker"
    service docker dockerd --data-root "$home/docker" --exec-root "$run/docker"
    wait_for docker info
  fi
  build_compose
  # The Dockerfile's base images. Like Debian's images, they keep no downloaded
  # packages. Like Debian's slim images, they have no documentation.
  if ! docker image inspect debian:bookworm >/dev/null 2>&1; then
    install_packages mmdebstrap
    step "making Debian's images"
    # shellcheck disable=SC2016  # mmdebstrap's shell expands $1
    mmdebstrap --quiet --variant=minbase --include=usr-is-merged \
      --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr \
      --dpkgopt='path-exclude=/usr/share/doc/*' \
      --dpkgopt='path-include=/usr/share/doc/*/copyright' \
      --dpkgopt='path-exclude=/usr/share/man/*' \
      --dpkgopt='path-exclude=/usr/share/locale/*' \
      --customize-hook='echo "APT::Keep-Downloaded-Packages false;
        Dir::Cache::pkgcache \"\"; Dir::Cache::srcpkgcache \"\";" \
        >"$1/etc/apt/apt.conf.d/clean"; rm -rf "$1"/var/cache/apt/*' \
      bookworm - "$(debian_mirror)" | docker import - debian:bookworm >/dev/null
    docker tag debian:bookworm debian:bookworm-slim
  fi
}

# Builds the image of the container that holds a pod's namespaces.
make_pause() {
  docker build -q -t topk/pause - >/dev/null <<'DOCKERFILE'
FROM debian:bookworm-slim
ENTRYPOINT ["/bin/sleep", "infinity"]
DOCKERFILE
}

# Copies images from Docker to all nodes.
load() {
  local node image
  for image in "$@"; do
    for node in "${nodes[@]}"; do
      docker save "$image" |
        ctr -a "$run/$node/containerd.sock" -n k8s.io images import - >/dev/null
    done
  done
}

# certificate NAME SUBJECT NAMES: creates a certificate that the cluster's
# authority signs, and a kubeconfig that uses the certificate.
certificate() {
  openssl req -newkey rsa:2048 -nodes -keyout "pki/$1.key" -subj "$2" \
    -out pki/request 2>/dev/null
  openssl x509 -req -in pki/request -CA pki/ca.crt -CAkey pki/ca.key \
    -CAcreateserial -days 30 -out "pki/$1.crt" \
    -extfile <(echo "subjectAltName=$3") 2>/dev/null
  sed "s|NAME|$1|g; s|RUN|$run|g" >"$1.conf" <<'YAML'
apiVersion: v1
kind: Config
clusters:
  - name: local
    cluster:
      server: https://127.0.0.1:6443
      certificate-authority: RUN/pki/ca.crt
users:
  - name: NAME
    user: {client-certificate: RUN/pki/NAME.crt, client-key: RUN/pki/NAME.key}
contexts:
  - {name: local, context: {cluster: local, user: NAME}}
current-context: local
YAML
}

make_certificates() {
  if [ -e pki/done ]; then return; fi
  openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=ca \
    -keyout pki/ca.key -out pki/ca.crt 2>/dev/null
  openssl genrsa -out pki/accounts.key 2048 2>/dev/null
  openssl rsa -in pki/accounts.key -pubout -out pki/accounts.pub 2>/dev/null
  certificate server /CN=kube-apiserver \
    DNS:kubernetes.default.svc,IP:127.0.0.1,IP:10.96.0.1,IP:10.88.0.1
  certificate admin /O=system:masters/CN=admin DNS:admin
  local node
  for node in "${nodes[@]}"; do
    certificate "$node" "/O=system:nodes/CN=system:node:$node" \
      "DNS:$node,IP:10.88.0.1"
  done
  touch pki/done
}

# Starts containerd and the kubelet of a node. All nodes share the machine's
# network namespace, so each needs its own ports.
start_node() {
  local node=$1 number=$2 memory cpus
  mkdir -p "$node"
  cat >"$node/containerd.toml" <<END_TOML
version = 2
root = "$home/$node"
state = "$run/$node/containerd"
[grpc]
address = "$run/$node/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "topk/pause:latest"
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "$run/cni"
END_TOML
  memory=$(awk '/^MemTotal/ { print int($2 / 1024) - 4096 }' /proc/meminfo)
  cpus=$(($(nproc) - 2))
  cat >"$node/kubelet.yaml" <<END_YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
port: $((10250 + 10 * number))
healthzPort: $((10251 + 10 * number))
authentication: {anonymous: {enabled: false}, x509: {clientCAFile: $run/pki/ca.crt}}
authorization: {mode: Webhook}
tlsCertFile: $run/pki/$node.crt
tlsPrivateKeyFile: $run/pki/$node.key
cgroupDriver: cgroupfs
# Not shared: a kubelet removes control groups and logs of other kubelets' pods.
cgroupRoot: /$node
podLogsDir: $run/$node/logs
containerRuntimeEndpoint: unix://$run/$node/containerd.sock
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
failSwapOn: false
kubeReserved: {cpu: "$cpus", memory: ${memory}Mi}
evictionHard: {memory.available: 100Mi}
imageGCHighThresholdPercent: 100
END_YAML
  local controller
  if [ -e /sys/fs/cgroup/cgroup.controllers ]; then  # version 2
    mkdir -p "/sys/fs/cgroup/$node"
  else
    for controller in /sys/fs/cgroup/*/; do mkdir -p "$controller$node"; done
  fi
  service "$node-containerd" containerd --config "$node/containerd.toml"
  wait_for ctr -a "$run/$node/containerd.sock" version
  docker save topk/pause:latest |
    ctr -a "$run/$node/containerd.sock" -n k8s.io images import - >/dev/null
  service "$node-kubelet" kubelet --config="$node/kubelet.yaml" \
    --kubeconfig="$node.conf" --hostname-override="$node" \
    --root-dir="$run/$node/kubelet" --node-ip=10.88.0.1
}

up() {
  install_packages containerd runc etcd-server containernetworking-plugins \
    conntrack ipset socat openssl
  mkdir -p "$bin" "$pids" "$run/log"
  build_kubernetes
  build_module coredns github.com/coredns/coredns@v$coredns
  build_module helm helm.sh/helm/v3/cmd/helm@v$helm
  start_docker
  make_pause
  if runs apiserver; then return; fi
  step "starting the cluster"
  # Remove what is left of a cluster that was not stopped.
  stop_cluster
  if ip link show cni0 >/dev/null 2>&1 || iptables-save | grep CNI- >/dev/null; then
    echo "another program uses cni0 or CNI's firewall rules, which down would remove" >&2
    exit 1
  fi
  mkdir -p "$pids" "$run"/{log,pki,cni,etcd}
  cd "$run"
  make_certificates
  touch "$pids/network"
  ip link add cni0 type bridge
  ip addr replace 10.88.0.1/16 dev cni0
  ip link set cni0 up
  sysctl -q net.ipv4.ip_forward=1
  forward_pods -I
  local node number=0
  for node in "${nodes[@]}"; do
    grep -q " $node\$" /etc/hosts || echo "10.88.0.1 $node" >>/etc/hosts
  done
  cat >cni/pods.conflist <<'JSON'
{"cniVersion": "1.0.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true,
   "hairpinMode": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.88.0.0/16"}]],
            "routes": [{"dst": "0.0.0.0/0"}]}}]}
JSON
  service etcd etcd --data-dir etcd \
    --listen-client-urls http://127.0.0.1:23790 \
    --advertise-client-urls http://127.0.0.1:23790 \
    --listen-peer-urls http://127.0.0.1:23800
  service apiserver kube-apiserver --etcd-servers=http://127.0.0.1:23790 \
    --secure-port=6443 --advertise-address=10.88.0.1 \
    --client-ca-file=pki/ca.crt --tls-cert-file=pki/server.crt \
    --tls-private-key-file=pki/server.key \
    --service-cluster-ip-range=10.96.0.0/16 \
    --service-account-key-file=pki/accounts.pub \
    --service-account-signing-key-file=pki/accounts.key \
    --service-account-issuer=https://kubernetes.default.svc \
    --authorization-mode=Node,RBAC \
    --kubelet-client-certificate=pki/admin.crt \
    --kubelet-client-key=pki/admin.key --kubelet-preferred-address-types=Hostname
  wait_for kubectl get --raw /readyz
  service controllers kube-controller-manager --kubeconfig=admin.conf \
    --service-account-private-key-file=pki/accounts.key \
    --root-ca-file=pki/ca.crt --use-service-account-credentials=true \
    --cluster-signing-cert-file=pki/ca.crt \
    --cluster-signing-key-file=pki/ca.key --leader-elect=false
  service scheduler kube-scheduler --kubeconfig=admin.conf --leader-elect=false
  for node in "${nodes[@]}"; do
    start_node "$node" $((number++))
  done

  cat >proxy.yaml <<END_YAML
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {kubeconfig: $run/admin.conf}
mode: iptables
clusterCIDR: 10.88.0.0/16
conntrack: {maxPerCore: 0}
hostnameOverride: node1
END_YAML
  service proxy kube-proxy --config=proxy.yaml
  cat >Corefile <<END_DNS
cluster.local:53 {
  bind 10.88.0.1
  kubernetes cluster.local {
    kubeconfig $run/admin.conf local
  }
}
.:53 {
  bind 10.88.0.1
  template ANY ANY . {
    rcode NXDOMAIN
  }
}
END_DNS
  service coredns coredns -conf Corefile
  kubectl apply -f - >/dev/null <<'YAML'
apiVersion: v1
kind: Service
metadata: {name: kube-dns, namespace: kube-system}
spec:
  clusterIP: 10.96.0.10
  ports:
    - {name: dns, port: 53, protocol: UDP}
    - {name: dns-tcp, port: 53, protocol: TCP}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: kube-dns
  namespace: kube-system
  labels: {kubernetes.io/service-name: kube-dns}
addressType: IPv4
endpoints: [{addresses: [10.88.0.1]}]
ports:
  - {name: dns, port: 53, protocol: UDP}
  - {name: dns-tcp, port: 53, protocol: TCP}
YAML
  for node in "${nodes[@]}"; do
    wait_for kubectl wait --for=condition=Ready --timeout=1s "node/$node"
  done
  step "ready: export KUBECONFIG=$KUBECONFIG PATH=$bin:\$PATH"
}

# forward_pods -I|-D: inserts or deletes firewall rules that forward the pods'
# packets.
forward_pods() {
  iptables "$1" FORWARD -i cni0 -j ACCEPT
  iptables "$1" FORWARD -o cni0 -j ACCEPT
}

stop_cluster() {
  local node name task
  # Stop the kubelets first, because they restart containers.
  for name in proxy coredns scheduler controllers \
    "${nodes[@]/%/-kubelet}" apiserver etcd; do
    stop "$name"
  done
  for node in "${nodes[@]}"; do
    for task in $(ctr -a "$run/$node/containerd.sock" -n k8s.io task ls -q \
      2>/dev/null); do
      ctr -a "$run/$node/containerd.sock" -n k8s.io task rm -f "$task" \
        >/dev/null 2>&1 || true
    done
    stop "$node-containerd"
    # Unmount the pods' volumes.
    awk -v folder="$run/$node/" 'index($2, folder) == 1 { print $2 }' \
      /proc/mounts | sort -ru | xargs -r -n 1 umount -l || true
    rm -rf "${run:?}/$node" "${home:?}/$node"
    sed -i "/^10.88.0.1 $node\$/d" /etc/hosts
    find /sys/fs/cgroup -depth -type d -path "*/$node*" -exec rmdir {} + \
      2>/dev/null || true
  done
  rm -rf "$run"/{etcd,pki} /var/lib/cni/networks/pods
  # Another program's network must not be removed.
  [ -e "$pids/network" ] || return 0
  kube-proxy --cleanup 2>/dev/null || true
  iptables-save | grep -v CNI- | iptables-restore || true
  forward_pods -D 2>/dev/null || true
  ip link delete cni0 2>/dev/null || true
  rm "$pids/network"
}

# Stops a service and waits until it has exited.
stop() {
  local file=$pids/$1 pid
  if [ ! -e "$file" ]; then return; fi
  pid=$(cat "$file")
  kill "$pid" 2>/dev/null || true
  for _ in $(seq 100); do
    if ! kill -0 "$pid" 2>/dev/null; then break; fi
    sleep 0.1
  done
  kill -KILL "$pid" 2>/dev/null || true
  rm "$file"
}

case "${1:-}" in
  up) up ;;
  docker) start_docker ;;
  load)
    shift
    load "$@"
    ;;
  down)
    stop_cluster
    stop docker
    ;;
  *)
    sed -n '2,17s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
