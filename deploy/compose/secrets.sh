#!/bin/sh
# Secrets for deploy/compose.yaml, made by chance, once. Compose shows them to containers as the files that they are, and
# these run as users without rights: the files can be read by everybody, their folder by its owner only.
set -eu
folder=$(dirname "$0")/secrets
mkdir -p "$folder"
chmod 0700 "$folder"
for name in http-token grafana-password; do
    if [ ! -s "$folder/$name" ]; then
        od -An -N24 -tx1 /dev/urandom | tr -d ' \n' >"$folder/$name"
        chmod 0444 "$folder/$name"
    fi
done
echo "secrets are in $folder"
