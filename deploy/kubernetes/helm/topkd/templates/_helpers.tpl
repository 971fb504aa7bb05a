{{/* The name of every object: the release's, which says topkd or is made to. With
-haproxy-metrics behind it, it has at most the 63 characters of a Service's. */}}
{{- define "topkd.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 47 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 47 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* What selects the pods. */}}
{{- define "topkd.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* Selects HAProxy's pods, which topkd.selector must not select. */}}
{{- define "topkd.haproxySelector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}-haproxy
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

{{/* The pods' constraints on nodes and their registries' secrets. The argument
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
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* The security context of the pods. */}}
{{- define "topkd.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{/* The security context of the containers. */}}
{{- define "topkd.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}
