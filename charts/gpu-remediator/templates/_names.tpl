{{/* The name that all objects begin with. */}}
{{- define "gpu-remediator.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- /* A release's name may hold dots, a Service's may not. */ -}}
{{- $release := .Release.Name | replace "." "-" -}}
{{- if contains $name $release -}}
{{- $release | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" $release $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Labels of one component: (list . "controller"). */}}
{{- define "gpu-remediator.labels" -}}
{{- $root := index . 0 -}}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
{{ include "gpu-remediator.selector" . }}
{{- end -}}

{{/* The labels that select the pods of one component; never changed. */}}
{{- define "gpu-remediator.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ default $root.Chart.Name $root.Values.nameOverride }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{/* The ServiceAccount of one component: (list . "controller"). */}}
{{- define "gpu-remediator.account" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
{{- $account := (index $root.Values $component).serviceAccount -}}
{{- if $account.create -}}
{{- default (printf "%s-%s" (include "gpu-remediator.fullname" $root) $component) $account.name -}}
{{- else -}}
{{- default "default" $account.name -}}
{{- end -}}
{{- end -}}

{{- define "gpu-remediator.image" -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}

{{/* Where the web configuration is mounted. */}}
{{- define "gpu-remediator.webConfigFolder" -}}
/etc/gpu-remediator/web-config
{{- end -}}

{{/* The volume of one component's webConfig. One folder holds both Secrets: the file names the certificate beside it. */}}
{{- define "gpu-remediator.webConfigVolume" -}}
projected:
  sources:
    - secret: {name: {{ .secretName | quote }}}
    {{- with .certificateSecretName }}
    - secret: {name: {{ . | quote }}}
    {{- end }}
{{- end -}}

{{/* How the kubelet asks one component: (list . "controller" "/healthz"). Where a password or a client certificate may be
wanted, which the kubelet does not have, it can only connect. */}}
{{- define "gpu-remediator.probe" -}}
{{- $web := (index (index . 0).Values (index . 1)).webConfig -}}
{{- if and $web.secretName (not $web.probeScheme) -}}
tcpSocket: {port: http}
{{- else -}}
httpGet: {path: {{ index . 2 }}, port: http{{ with $web.probeScheme }}, scheme: {{ . }}{{ end }}}
{{- end -}}
{{- end -}}

{{/* What one endpoint of a monitor needs besides: its values podMonitor or serviceMonitor. */}}
{{- define "gpu-remediator.scrapeAccess" -}}
{{- with .scheme }}
scheme: {{ . }}
{{- end }}
{{- with .tlsConfig }}
tlsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .basicAuth }}
basicAuth:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* A duration such as 1m30s in milliseconds. */}}
{{- define "gpu-remediator.milliseconds" -}}
{{- $sum := 0 -}}
{{- range $part := regexFindAll "[0-9]+(ms|s|m|h)" . -1 -}}
{{- $unit := regexFind "[a-z]+$" $part -}}
{{- $factor := get (dict "ms" 1 "s" 1000 "m" 60000 "h" 3600000) $unit -}}
{{- $sum = add $sum (mul (trimSuffix $unit $part | int64) $factor) -}}
{{- end -}}
{{- $sum -}}
{{- end -}}

{{/* Fails where the controller would refuse the times of its election, so that this is seen before it is installed. */}}
{{- define "gpu-remediator.checkElection" -}}
{{- $times := .Values.controller.leaderElection -}}
{{- $lease := include "gpu-remediator.milliseconds" $times.leaseDuration | int64 -}}
{{- $renew := include "gpu-remediator.milliseconds" $times.renewDeadline | int64 -}}
{{- $retry := include "gpu-remediator.milliseconds" $times.retryPeriod | int64 -}}
{{- if lt $lease 1000 -}}
{{- fail (printf "controller.leaderElection.leaseDuration (%s) must be at least 1s" $times.leaseDuration) -}}
{{- end -}}
{{- if mod $lease 1000 -}}
{{- fail (printf "controller.leaderElection.leaseDuration (%s) must be a whole number of seconds" $times.leaseDuration) -}}
{{- end -}}
{{- if le $lease $renew -}}
{{- fail (printf "controller.leaderElection.leaseDuration (%s) must be longer than renewDeadline (%s)" $times.leaseDuration $times.renewDeadline) -}}
{{- end -}}
{{- if le $renew (mul 2 $retry) -}}
{{- fail (printf "controller.leaderElection.renewDeadline (%s) must be longer than twice retryPeriod (%s)" $times.renewDeadline $times.retryPeriod) -}}
{{- end -}}
{{- end -}}
