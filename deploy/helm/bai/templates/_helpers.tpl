{{- define "bai.name" -}}
{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- /* Of what is in no namespace: no other release's. */ -}}
{{- define "bai.clusterName" -}}
{{ .Release.Namespace }}-{{ include "bai.name" . }}
{{- end }}

{{- define "bai.selector" -}}
app.kubernetes.io/name: bai
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "bai.labels" -}}
{{ include "bai.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- define "bai.image" -}}
{{- $image := .Values.image -}}
{{ required "image.repository: where the image of deploy/container/Containerfile was pushed" $image.repository }}{{ if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- /* Passwords in addresses would be in the Deployment, for everybody who may look at it. */ -}}
{{- define "bai.remote" -}}
{{- $remote := required "git.remote: the address of the repository with the documents, such as https://git.example/cluster.git" .Values.git.remote -}}
{{- if regexMatch "^[a-z+]+://[^/@]*:[^/@]*@" $remote }}{{ fail "git.remote has a password in it: name a Secret of the type kubernetes.io/basic-auth in git.secret" }}{{ end -}}
{{- $remote -}}
{{- end }}

{{- define "bai.ssh" -}}
{{- if and .Values.git.secret (not (hasPrefix "http" .Values.git.remote)) }}true{{ end -}}
{{- end }}

{{- /* The store's URL, and where its password and authorities are. */ -}}
{{- define "bai.store" -}}
{{- $url := required "store.url: a PostgreSQL store, such as postgresql://bai@db.example/bai" .Values.store.url -}}
{{- if or (regexMatch "^[a-z]+://[^/@]*:[^/]*@" $url) (regexMatch "[?&](password|sslpassword)=" $url) }}{{ fail "store.url has a password in it: name a Secret with the key password in store.secret" }}{{ end -}}
{{- $words := list -}}
{{- if .Values.store.secret }}{{ $words = append $words "passwordFrom=file:/etc/bai/store/password" }}{{ end -}}
{{- if .Values.store.caConfigMap }}{{ $words = append $words "sslrootcert=/etc/bai/store-ca/ca.crt" }}{{ end -}}
{{- $url }}{{ if $words }}{{ if contains "?" $url }}&{{ else }}?{{ end }}{{ join "&" $words }}{{ end }}
{{- end }}

{{- define "bai.publicUrl" -}}
{{ required "apps.publicUrl: where browsers log in to open apps, such as https://bai.example" .Values.apps.publicUrl }}
{{- end }}
