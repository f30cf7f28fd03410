{{- define "ishsmm.labels" -}}
app.kubernetes.io/name: ishsmm-stream
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* What pods of one kind are chosen by: (dict "root" . "part" "worker") */}}
{{- define "ishsmm.selector" -}}
app.kubernetes.io/name: ishsmm-stream
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end }}

{{- define "ishsmm.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "ishsmm.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "ishsmm.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* How every process reaches the brokers, and where it finds its secrets */}}
{{- define "ishsmm.env" -}}
- name: ISHSMM_KAFKA__BOOTSTRAP
  value: {{ join "," .Values.kafka.bootstrap | quote }}
- name: ISHSMM_HTTP__HOST
  value: 0.0.0.0
- name: ISHSMM_HTTP__PORT
  value: "9108"
- name: ISHSMM_HTTP__TOKEN_FILE
  value: /run/secrets/http/token
{{- with .Values.kafka.security }}
- name: ISHSMM_KAFKA__SECURITY__PROTOCOL
  value: {{ .protocol }}
{{- if hasPrefix "sasl" .protocol }}
- name: ISHSMM_KAFKA__SECURITY__MECHANISM
  value: {{ .mechanism }}
- name: ISHSMM_KAFKA__SECURITY__USERNAME
  value: {{ .username | quote }}
- name: ISHSMM_KAFKA__SECURITY__PASSWORD_FILE
  value: /run/secrets/kafka/password
{{- end }}
{{- if .tlsSecret }}
- name: ISHSMM_KAFKA__SECURITY__CA_FILE
  value: /run/secrets/kafka-tls/ca.crt
{{- if .clientCertificate }}
- name: ISHSMM_KAFKA__SECURITY__CERTIFICATE_FILE
  value: /run/secrets/kafka-tls/tls.crt
- name: ISHSMM_KAFKA__SECURITY__KEY_FILE
  value: /run/secrets/kafka-tls/tls.key
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "ishsmm.mounts" -}}
- name: config
  mountPath: /etc/ishsmm
  readOnly: true
- name: http-token
  mountPath: /run/secrets/http
  readOnly: true
- name: tmp
  mountPath: /tmp
{{- if hasPrefix "sasl" .Values.kafka.security.protocol }}
- name: kafka-password
  mountPath: /run/secrets/kafka
  readOnly: true
{{- end }}
{{- if .Values.kafka.security.tlsSecret }}
- name: kafka-tls
  mountPath: /run/secrets/kafka-tls
  readOnly: true
{{- end }}
{{- end }}

{{- define "ishsmm.volumes" -}}
- name: config
  configMap:
    name: {{ .Release.Name }}-config
- name: http-token
  secret:
    secretName: {{ .Values.http.tokenSecret }}
    defaultMode: 0440
    items: [{key: token, path: token}]
- name: tmp
  emptyDir:
    sizeLimit: 512Mi
{{- if hasPrefix "sasl" .Values.kafka.security.protocol }}
- name: kafka-password
  secret:
    secretName: {{ .Values.kafka.security.passwordSecret }}
    defaultMode: 0440
    items: [{key: password, path: password}]
{{- end }}
{{- if .Values.kafka.security.tlsSecret }}
- name: kafka-tls
  secret:
    secretName: {{ .Values.kafka.security.tlsSecret }}
    defaultMode: 0440
{{- end }}
{{- end }}
