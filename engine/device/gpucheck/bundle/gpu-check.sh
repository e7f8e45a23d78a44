#!/bin/sh
# Checks gpustall on this machine's GPU and measures it: a few minutes, no network,
# nothing installed, no setting of the GPU changed. See gpu.md. Takes the flags of
# gpucheck; -h lists them.
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
if [ -x "$here/gpucheck" ] && "$here/gpucheck" -h >/dev/null 2>&1; then
  exec "$here/gpucheck" "$@"
fi
# Not executable: the copy lost its mode, or lies where nothing may be executed.
for dir in "${TMPDIR:-/tmp}" /tmp /dev/shm "${OUT:-.}" .; do
  copy=$(mktemp -d "$dir/gpu-check-XXXXXX" 2>/dev/null) || continue
  if cp "$here/gpucheck" "$copy/" && chmod 700 "$copy/gpucheck" && "$copy/gpucheck" -h >/dev/null 2>&1; then
    "$copy/gpucheck" -dir "$here" "$@"
    status=$?
    rm -rf "$copy"
    exit $status
  fi
  rm -rf "$copy"
done
echo "gpu-check: the bundle's programs do not start here: they need 64-bit Linux on x86 with glibc 2.34 or later" >&2
exit 1
