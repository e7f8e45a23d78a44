#!/bin/sh
# Checks gpustall on this machine's GPU and measures it: a few minutes, no network,
# nothing installed, no setting of the GPU changed. See gpu.md. Takes the flags of
# gpucheck; -h lists them.
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
if ! "$here/gpucheck" -h >/dev/null 2>&1; then
  echo "gpu-check: the bundle's programs do not start here: they need 64-bit Linux on x86 with glibc 2.34 or later" >&2
  exit 1
fi
exec "$here/gpucheck" "$@"
