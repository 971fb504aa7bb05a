{{/* The name of every object. Truncated so that even with the suffix
-haproxy-metrics it has at most 63 characters, the limit for Services. */}}
{{- define "topkd.name" -}}
{{- $name := printf "%s-%s" .Release.Name .Chart.Name -}}
{{- if contains .Chart.Name .Release.Name -}}{{- $name = .Release.Name -}}{{- end -}}
{{- .Values.fullnameOverride | default $name | trunc 47 | trimSuffix "-" -}}
{{- end -}}

{{- define "topkd.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (ternary (include "topkd.name" .) "default" .Values.serviceAccount.create) -}}
{{- end -}}

{{/* The reference of an image. The argument is a list of the image's values and
the default tag. Fails if both a tag and a digest are set: a tag must not be
ignored because of the digest in a released chart. */}}
{{- define "topkd.image" -}}
{{- $image := index . 0 -}}
{{- if and $image.tag $image.digest -}}
{{- fail (printf "image.digest excludes image.tag: to use the tag %s, set image.digest to \"\"" $image.tag) -}}
{{- end -}}
{{- with $image.registry }}{{ . }}/{{ end }}{{ $image.repository -}}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default (index . 1) }}{{ end -}}
{{- end -}}

{{/* The port that answers health checks in plaintext. TLS ends at HAProxy if
there is one. */}}
{{- define "topkd.healthPort" -}}
{{- ternary 50052 50051 (and .Values.tls.enabled (not .Values.haproxy.enabled)) -}}
{{- end -}}

{{/* A probe with the handler from its values, or else a gRPC handler. The
argument is a list of the probe's values and the gRPC handler. */}}
{{- define "topkd.probe" -}}
{{- $probe := index . 0 -}}
{{- if or $probe.exec $probe.grpc $probe.httpGet $probe.tcpSocket -}}
{{- toYaml $probe -}}
{{- else -}}
{{- toYaml (merge (dict "grpc" (index . 1)) $probe) -}}
{{- end -}}
{{- end -}}

{{/* Selects topkd's pods. */}}
{{- define "topkd.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* Selects HAProxy's pods, which topkd.selector must not select. */}}
{{- define "topkd.haproxySelector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}-haproxy
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* Selects the pod of `helm test`, which no Service must select. */}}
{{- define "topkd.testSelector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}-test
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "topkd.labels" -}}
{{ include "topkd.selector" . }}
{{ include "topkd.commonLabels" . }}
{{- end -}}

{{- define "topkd.haproxyLabels" -}}
{{ include "topkd.haproxySelector" . }}
{{ include "topkd.commonLabels" . }}
{{- end -}}

{{- define "topkd.commonLabels" -}}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/* The scheduling constraints and the image pull secrets of pods. The argument
is a list of the root and the selector of the pods. */}}
{{- define "topkd.scheduling" -}}
{{- $root := index . 0 -}}
{{- $selector := index . 1 -}}
topologySpreadConstraints:
  {{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - topologyKey: {{ . }}
    maxSkew: 1
    whenUnsatisfiable: {{ $root.Values.spread }}
    labelSelector:
      matchLabels: {{- include $selector $root | nindent 8 }}
    matchLabelKeys: [pod-template-hash]
  {{- end }}
{{- with $root.Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- include "topkd.pullSecrets" $root | nindent 0 }}
{{- end -}}

{{- define "topkd.pullSecrets" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end -}}
