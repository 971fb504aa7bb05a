#!/usr/bin/env bash
# Checks what ../cluster, a real cluster, cannot: values that the chart rejects,
# and the manifests of the chart and of KServe with the schemas of Kubernetes and
# of the operators.
#
# usage: tests/system/deploy/kubernetes.sh [--no-fetch]
#        Fetches the tools into build/tools/kubernetes. The first time takes
#        minutes and needs Go 1.26 or newer, python3-venv and the network. With
#        --no-fetch, exits with 77 (skipped) if the tools are missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

fail() {
  echo "$*" >&2
  exit 1
}

tools=$PWD/build/tools/kubernetes
modules=(
  helm.sh/helm/v3/cmd/helm@v3.22.0
  github.com/yannh/kubeconform/cmd/kubeconform@v0.7.0
)
# Go modules that contain the operators' CRDs, and the files to take from them.
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
version=1.37.0
packages=("kubernetes-validate==$version" PyYAML==6.0.4)
wanted="${modules[*]} ${schemas[*]} ${packages[*]}"
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
  rm -rf "$tools/crd"
  mkdir -p "$tools/crd"
  folder_of() {
    go mod download -json "$1" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p'
  }
  for schema in "${schemas[@]}"; do
    read -r -d '' -a files <<<"$schema" || true
    for file in "${files[@]:1}"; do
      install -m 644 "$(folder_of "${files[0]}")/$file" "$tools/crd/"
    done
  done
  python3 -m venv "$tools/venv"
  "$tools/venv/bin/pip" install -q "${packages[@]}"
  # kubernetes-validate contains the schemas of Kubernetes. They refer to each
  # other by paths from the root of a server.
  cp -r "$tools"/venv/lib/python3*/site-packages/kubernetes_validate/kub*/"v$version-local-strict" \
    "$tools/crd/$version"
  # shellcheck disable=SC2016  # $id is not a variable
  sed -i 's#"/api/_definitions.json#"_definitions.json#
    s#"\$id": "https://#"x-id": "https://#' \
    "$tools/crd/$version"/*.json
  (
    cd "$tools/crd"
    FILENAME_FORMAT='{kind}-{group}-{version}' ../venv/bin/python \
      "$(folder_of github.com/yannh/kubeconform@v0.7.0)/scripts/openapi2jsonschema.py" ./*_*.yaml
  )
  echo "$wanted" >"$tools/ready"
fi
PATH=$tools:$PATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

chart=deploy/kubernetes/helm/topkd
# A helm built by `go install` assumes Kubernetes 1.20.
helm() {
  case $1 in
    lint | template) command helm "$@" --kube-version "$version" ;;
    *) command helm "$@" ;;
  esac
}
helm lint --strict --quiet $chart
helm template topkd $chart >"$work/defaults.yaml" 2>"$work/warnings"
for values in "$chart"/ci/*-values.yaml; do
  name=$(basename "$values" -values.yaml)
  helm lint --strict --quiet $chart --values "$values"
  helm template topkd $chart --values "$values" >"$work/$name.yaml" \
    2>>"$work/warnings"
done
[ ! -s "$work/warnings" ] || fail "$(cat "$work/warnings")"
# Service names must be DNS labels, even if the release has Helm's longest name.
helm template "9.$(printf 'a%.0s' {1..51})" $chart \
  --values $chart/ci/haproxy-values.yaml >"$work/long.yaml"
! grep -E '^  name: "?[^"]{64}' "$work/long.yaml" ||
  fail "the name is longer than 63 characters"
! grep -E '^  name: "?([0-9]|[^"]*\.)' "$work/long.yaml" ||
  fail "the name is not a DNS label"

# A released chart has the release's image, and nothing from outside the chart.
image=ghcr.io/owner/topk/topkd@sha256:$(printf '%064d' 7)
package=$(deploy/kubernetes/package_chart.sh "$image" "$work")
[ "$(helm template topkd "$package" | grep -c "image: $image$")" -eq 2 ] ||
  fail "$package does not have the image $image"

# has|lacks FLAGS TEXT: checks whether a template with the flags has the text.
contains() {
  # shellcheck disable=SC2086  # several flags
  helm template topkd $chart $1 | grep -Fe "$2" >/dev/null
}
has() { contains "$@" || fail "helm template $1 lacks $2"; }
lacks() { ! contains "$@" || fail "helm template $1 has $2"; }
# The alerts select the release's targets, and use the values of monitoring.
alerts='--set monitoring.prometheusRule=true'
has "$alerts" \
  'absent(up{job="topkd",namespace="default",service="topkd-headless"})'
has "$alerts,monitoring.slowSeconds=2.5" '> 2.5'
has "$alerts,monitoring.certificateDays=2" '< 2 *'
lacks "$alerts" TopkdHaproxyDown
has "$alerts,haproxy.enabled=true" \
  'up{job="topkd-haproxy",namespace="default",service="topkd-haproxy-metrics"}'
has "$alerts,monitoring.runbookUrl=https://example.org/x" \
  '    runbook_url: "https://example.org/x"'
# The Gateways of a route may call the pods.
has "--values $chart/ci/all-values.yaml" 'kubernetes.io/metadata.name: gateways'
# Without prometheus-adapter, this metric would prevent scaling down.
scaled='--set autoscaling.enabled=true'
lacks "$scaled" topk_inflight_bytes
has "$scaled,autoscaling.inflightBytesRatio=500m" topk_inflight_bytes
# Behind HAProxy, the only client, topkd has no limits per client, unless the
# values have them or tokens distinguish the clients.
edge='--set haproxy.enabled=true'
limit=--max-client-inflight-calls
has "$edge" "$limit=1000000"
has "$edge,settings.max-client-inflight-calls=7" "$limit=7"
has "$edge,tokensSecretName=tokens" --max-connections-per-client=0
lacks "$edge,tokensSecretName=tokens" "$limit"
has "$edge,haproxy.proxyProtocolFrom={192.0.2.0/24}" \
  '{name: TOPK_PROXY_FROM, value: "192.0.2.0/24"}'
has "$edge,tls.enabled=true,tls.clientCertificates=true" TOPK_TLS_CLIENT_CA

# Partial values keep the other defaults.
has '--set strategy.rollingUpdate.maxSurge=2' 'maxUnavailable: 0'
has '--set podDisruptionBudget.unhealthyPodEvictionPolicy=AlwaysAllow' \
  'maxUnavailable: 1'
has '--set podDisruptionBudget.minAvailable=null' 'maxUnavailable: 1'
has '--set strategy=null' 'maxUnavailable: 0'
has '--set readinessProbe=null,settings=null,commonAnnotations=null' \
  livenessProbe
lacks '--set readinessProbe=null' readinessProbe:

# Values that the schema, or the templates, must reject.
for wrong in replicaCount=two no.such=1 image.tag=latest settings.listen=x \
  settings.max-elemens=1 settings.allow-shared-memory=1 \
  settings.unix-socket-mode=0660 tls.clientCertificates=true \
  'tls.enabled=true,tls.allowedNames={a}' 'tls.allowedNames={a}' \
  tls.enabled=true,tls.revocationList=true \
  grpcRoute.enabled=true autoscaling.inflightBytesRatio=2 \
  haproxy.limits.calls=1 'haproxy.proxyProtocolFrom={all}' \
  haproxy.image.tag=latest service.type=ExternalName \
  monitoring.slowSeconds=0 monitoring.slowSeconds=10 monitoring.runbookUrl=x \
  drain=null haproxy.resources.limits.cpu=null haproxy.resources.limits.cpu=65 \
  autoscaling.enabled=true,autoscaling.cpuPercent=null fullnameOverride=a.b \
  autoscaling.enabled=true,autoscaling.minReplicas=11 service.nodePort=30000 \
  tls.enabled=true,tls.secretName=; do
  ! helm template topkd $chart --set $wrong >/dev/null 2>&1 ||
    fail "the chart lets $wrong pass"
done

# Values that conflict with haproxy.enabled, or with a released chart's digest.
for wrong in 'tls.allowedNames={a}' tls.revocationList=true image.tag=x \
  'grpcRoute.enabled=true,grpcRoute.parentRefs[0].name=gateway'; do
  if helm template topkd "$package" --values $chart/ci/haproxy-values.yaml \
    --set "$wrong" >/dev/null 2>"$work/error" ||
    ! grep -qE '(haproxy.enabled|image.digest) excludes' "$work/error"; then
    fail "the chart accepts haproxy.enabled, or a digest, with $wrong"
  fi
done

schema='{{.ResourceKind}}{{.KindSuffix}}.json'
kubeconform -strict -summary -kubernetes-version "$version" \
  -schema-location "$tools/crd/$version/$schema" \
  -schema-location "$tools/crd/$schema" "$work"/*.yaml \
  deploy/kubernetes/kserve
