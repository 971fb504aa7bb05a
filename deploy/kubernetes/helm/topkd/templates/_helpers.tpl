{{/* The name of every object. Truncated so that even with the suffix
-haproxy-metrics it has at most 63 characters, the limit for Services. The names
of Services must not contain dots or begin with a digit. */}}
{{- define "topkd.name" -}}
{{- $name := .Release.Name -}}
{{- if regexMatch "^[0-9]" $name -}}{{- $name = printf "%s-%s" .Chart.Name $name -}}{{- end -}}
{{- if not (contains .Chart.Name $name) -}}{{- $name = printf "%s-%s" $name .Chart.Name -}}{{- end -}}
{{- .Values.fullnameOverride | default $name | replace "." "-" | trunc 47 | trimAll "-" -}}
{{- end -}}

{{- define "topkd.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (ternary (include "topkd.name" .) "default" .Values.serviceAccount.create) -}}
{{- end -}}

{{/* The reference of an image. The argument is a list of the root, the image's
values and the default tag. Fails if both a tag and a digest are set: a tag must
not be ignored because of the digest in a released chart. */}}
{{- define "topkd.image" -}}
{{- $image := index . 1 -}}
{{- if and $image.tag $image.digest -}}
{{- fail (printf "image.digest excludes image.tag: to use the tag %s, set image.digest to \"\"" $image.tag) -}}
{{- end -}}
{{- with dig "imageRegistry" "" ((index . 0).Values.global | default dict) | default $image.registry }}{{ . }}/{{ end }}{{ $image.repository -}}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default (index . 2) }}{{ end -}}
{{- end -}}

{{/* The metadata of an object. The argument has the root, the suffix of the name,
the template of the labels (topkd.labels by default), more labels, and
annotations. */}}
{{- define "topkd.metadata" -}}
name: {{ printf "%s%s" (include "topkd.name" .root) (.suffix | default "") | quote }}
labels: {{- merge (include (.labels | default "topkd.labels") .root | fromYaml) (.more | default dict) | toYaml | nindent 2 }}
{{- with merge (deepCopy (.annotations | default dict)) (.root.Values.commonAnnotations | default dict) }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* A probe with the handler from its values, or else a gRPC handler for the port
of health checks. The argument is a list of the probe's values and the fields of
the gRPC handler. */}}
{{- define "topkd.probe" -}}
{{- $probe := index . 0 -}}
{{- if or $probe.exec $probe.httpGet $probe.tcpSocket -}}
{{- toYaml $probe -}}
{{- else -}}
{{- toYaml (merge (deepCopy $probe) (dict "grpc" (merge (index . 1) (dict "port" 50052)))) -}}
{{- end -}}
{{- end -}}

{{/* Selects topkd's pods. */}}
{{- define "topkd.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{/* Selects HAProxy's pods, which topkd.selector must not select. */}}
{{- define "topkd.haproxySelector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}-haproxy
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{/* Selects the pod of `helm test`, which no Service must select. */}}
{{- define "topkd.testSelector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}-test
app.kubernetes.io/instance: {{ .Release.Name | quote }}
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
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
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
    {{- /* Nodes may have no zone label. */}}
    whenUnsatisfiable: {{ ternary $root.Values.spread "ScheduleAnyway" (eq . "kubernetes.io/hostname") }}
    labelSelector:
      matchLabels: {{- include $selector $root | nindent 8 }}
    matchLabelKeys: [pod-template-hash]
    # Otherwise, pods that replace those of a drained node might stay Pending.
    nodeTaintsPolicy: Honor
  {{- end }}
{{- include "topkd.placement" $root | nindent 0 }}
{{- end -}}

{{/* Where pods may run, and the image pull secrets. */}}
{{- define "topkd.placement" -}}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- include "topkd.pullSecrets" . | nindent 0 }}
{{- end -}}

{{- define "topkd.pullSecrets" -}}
{{- with concat (.Values.imagePullSecrets | default list) (dig "imagePullSecrets" list (.Values.global | default dict)) }}
imagePullSecrets:
  {{- range . }}
  - name: {{ kindIs "string" . | ternary . (get (kindIs "map" . | ternary . dict) "name") }}
  {{- end }}
{{- end }}
{{- end -}}
