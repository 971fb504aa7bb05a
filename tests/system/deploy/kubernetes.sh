#!/usr/bin/env bash
# Renders the Helm chart with several sets of values and checks the manifests
# with kubernetes-validate (strictly, for the three newest versions of
# Kubernetes that it carries), with kube-score (nothing critical) and with the
# operators' schemas for their objects.
#
# usage: tests/system/deploy/kubernetes.sh [--no-fetch]
#        Fetches the tools into build/tools/kubernetes: the first time that
#        takes minutes, Go 1.26 or newer, python3-venv, and the network. With
#        --no-fetch it is skipped (status 77) if they are not there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

tools=$PWD/build/tools/kubernetes
modules=(
  helm.sh/helm/v3/cmd/helm@v3.22.0
  github.com/zegl/kube-score/cmd/kube-score@v1.20.0
)
# The modules that carry the schemas of their operators' objects, and the files.
operator=example/prometheus-operator-crd/monitoring.coreos.com
schemas=(
  "sigs.k8s.io/gateway-api@v1.3.0
   config/crd/standard/gateway.networking.k8s.io_grpcroutes.yaml"
  "github.com/prometheus-operator/prometheus-operator@v0.85.0
   ${operator}_servicemonitors.yaml ${operator}_prometheusrules.yaml"
  "github.com/kserve/kserve@v0.15.2
   config/crd/full/serving.kserve.io_servingruntimes.yaml
   config/crd/full/serving.kserve.io_inferenceservices.yaml"
)
wanted="${modules[*]} ${schemas[*]}"
if [ "$(cat "$tools/ready" 2>/dev/null)" != "$wanted" ]; then
  if [ "${1:-}" = --no-fetch ]; then
    echo "SKIPPED: the charts and manifests are not checked;" \
      "tests/system/deploy/kubernetes.sh fetches the tools" >&2
    exit 77
  fi
  for module in "${modules[@]}"; do
    echo "== building $module" >&2
    GOBIN=$tools go install "$module"
  done
  mkdir -p "$tools/crd"
  for schema in "${schemas[@]}"; do
    read -r -d '' -a files <<<"$schema" || true
    folder=$(go mod download -json "${files[0]}" |
      sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
    for file in "${files[@]:1}"; do
      install -m 644 "$folder/$file" "$tools/crd/"
    done
  done
  python3 -m venv "$tools/venv"
  "$tools/venv/bin/pip" install -q kubernetes-validate==1.37.0 PyYAML
  echo "$wanted" >"$tools/ready"
fi
PATH=$tools:$PATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

chart=deploy/kubernetes/helm/topkd
# Omits helm's message that the chart has symbolic links.
chart() { helm "$@" 2> >(grep -v 'found symbolic link' >&2); }
template() { chart template topkd $chart --kube-version 1.37.0 "$@"; }
preferred=preferredDuringSchedulingIgnoredDuringExecution
all=(--set "tls.enabled=true,tls.clientCertificates=true"
  --set "tls.allowedNames={*.example.org},tokensSecretName=topkd-tokens"
  --set "grpcRoute.enabled=true,grpcRoute.parentRefs[0].name=gateway"
  --set "grpcRoute.parentRefs[0].namespace=gateways"
  --set "autoscaling.inflightBytesRatio=500m"
  --set "grpcRoute.hostnames={topk.example.org},monitoring.dashboard=true"
  --set "monitoring.serviceMonitor=true,monitoring.prometheusRule=true"
  --set "monitoring.labels.release=prometheus,settings.max-elements=100000000"
  --set "networkPolicy.clients[0].podSelector.matchLabels.role=client"
  --set "image.digest=sha256:$(printf '%064d' 0),imagePullSecrets={mine}"
  --set "tolerations[0].key=gpu,nodeSelector.disk=fast,podAnnotations.note=x"
  --set "service.annotations.note=x,priorityClassName=high"
  --set "extraEnv[0].name=A,extraEnv[0].value=b"
  --set "extraVolumes[0].name=cache,extraVolumes[0].emptyDir.medium=Memory"
  --set "extraVolumeMounts[0].name=cache,extraVolumeMounts[0].mountPath=/x"
  --set "affinity.podAntiAffinity.${preferred}[0].weight=1"
  --set "affinity.podAntiAffinity.${preferred}[0].podAffinityTerm.topologyKey=a"
  --set "drain.delaySeconds=10,drain.timeoutSeconds=60,spread=DoNotSchedule")
# Numbers of a file are floating-point numbers, those of --set are not.
cat >"$work/numbers" <<END
haproxy: {limits: {connections: 50, call-rate: 10000000}}
settings: {max-client-inflight-calls: 0, max-elements: 10000000}
END
haproxy=(--values "$work/numbers"
  --set "haproxy.enabled=true,service.type=LoadBalancer"
  --set "haproxy.proxyProtocolFrom={10.0.0.0/8,fd00::/8}"
  --set "tls.enabled=true,tls.clientCertificates=true"
  --set "networkPolicy.clients[0].ipBlock.cidr=0.0.0.0/0"
  --set "imagePullSecrets={mine},nodeSelector.disk=fast"
  --set "haproxy.podAnnotations.note=x,monitoring.serviceMonitor=true")

chart lint --strict --quiet $chart
template >"$work/defaults.yaml"
template "${all[@]}" >"$work/all.yaml"
template --set autoscaling.enabled=false,networkPolicy.enabled=false \
  >"$work/plain.yaml"
template "${haproxy[@]}" >"$work/haproxy.yaml"
long=$(printf 'a%.0s' {1..53}) # Helm's longest name of a release
chart template "$long" $chart --kube-version 1.37.0 "${haproxy[@]}" \
  >"$work/long"

mkdir "$work/kserve"
cp deploy/kubernetes/kserve/*.yaml "$work/kserve"

# Values that the schema must reject.
for wrong in replicas=two no.such=1 image.tag=latest settings.listen=x \
  settings.max-elemens=1 settings.allow-shared-memory=1 \
  settings.unix-socket-mode=0660 \
  grpcRoute.enabled=true autoscaling.inflightBytesRatio=2 \
  haproxy.limits.calls=1 'haproxy.proxyProtocolFrom={all}' \
  haproxy.image.tag=latest service.type=ExternalName; do
  if helm template topkd $chart --kube-version 1.37.0 --set $wrong \
    >/dev/null 2>&1; then
    echo "values.schema.json lets $wrong pass" >&2
    exit 1
  fi
done

# Values that exclude each other.
for both in 'tls.allowedNames={a}' \
  'grpcRoute.enabled=true,grpcRoute.parentRefs[0].name=gateway'; do
  if helm template topkd $chart --kube-version 1.37.0 "${haproxy[@]}" \
    --set "$both" >/dev/null 2>"$work/error" ||
    ! grep -q 'haproxy.enabled excludes' "$work/error"; then
    echo "the chart accepts haproxy.enabled with $both" >&2
    exit 1
  fi
done

"$tools/venv/bin/python" tests/system/deploy/kubernetes_check.py "$work" \
  "$tools/crd"
# Not plain, which leaves the policy out.
for name in all defaults haproxy; do
  kube-score score --kubernetes-version v1.37 --output-format ci \
    "$work/$name.yaml" >"$work/score" || {
    grep -F '[CRITICAL]' "$work/score" >&2
    exit 1
  }
  echo "== kube-score, $name: $(grep -c '^\[OK\]' "$work/score") right," \
    "$(grep -c '^\[WARNING\]' "$work/score") warnings, none critical"
done
