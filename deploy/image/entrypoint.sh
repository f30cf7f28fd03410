#!/bin/sh
# Runs `ishsmm-stream` with the kernels that were compiled when the image was built. Numba takes them from a folder only
# if it can write there, and the image's own is read-only: the process gets a copy in its /tmp.
set -eu
mkdir -p "$NUMBA_CACHE_DIR"
cp -R /opt/kernels/. "$NUMBA_CACHE_DIR"
exec ishsmm-stream "$@"
