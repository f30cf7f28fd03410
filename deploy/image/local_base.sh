#!/bin/sh
# A base image made here, under the name of the public one that deploy/Dockerfile builds on: Debian with its Python.
# It stands in for that where the public registry cannot be reached. It goes into a storage of its own, so that it is
# never taken for the real one: local_base.sh NAME STORAGE
set -eu
name=$1
storage=$2
build() { buildah --root "$storage/images" --runroot "$storage/run" --storage-driver overlay "$@"; }

if build inspect --type image "$name" >/dev/null 2>&1; then
    exit 0
fi
echo "== making a base image from Debian's packages (about two minutes, once)"
root=$storage/base
rm -rf "$root"
mkdir -p "$storage"
debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates bookworm "$root" >"$storage/debootstrap.log"
rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
ln -s /usr/bin/python3 "$root/usr/local/bin/python"
container=$(build from scratch)
build add --quiet "$container" "$root" / >/dev/null
build config --env PATH=/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin "$container"
build commit --quiet --rm "$container" "$name" >/dev/null
rm -rf "$root"
