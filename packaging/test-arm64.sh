#!/usr/bin/env bash
# Checks the wheel for aarch64, and runs its binary under qemu where there is one: test-arm64.sh WHEEL.
# No arm64 machine is needed, and none has been tried.
set -euo pipefail
wheel=$(realpath "$1")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m zipfile -e "$wheel" wheel
fail() { echo "failed: $wheel: $*"; exit 1; }
grep -qx "Tag: py3-none-manylinux_2_28_aarch64" wheel/*.dist-info/WHEEL || fail "its tag is another one"
grep -qx "Name: gpustall" wheel/*.dist-info/METADATA || fail "its metadata names something else"
version=$(sed -n 's/^Version: //p' wheel/*.dist-info/METADATA)
[[ $(basename "$wheel") == "gpustall-$version-py3-none-manylinux_2_28_aarch64.whl" ]] || fail "its name is not its version's"
binary=$(echo wheel/*.data/scripts/gpustall)
readelf -h "$binary" | grep -q AArch64 || fail "the binary is for another processor"
readelf -d "$binary" | grep -q "no dynamic section" || fail "the binary needs libraries"
size=$(stat -c %s "$binary")
((size < 50000000)) || fail "the binary has $size bytes, over 50 MB"
echo "the wheel for aarch64: $version, a static binary of $size bytes"

qemu=$(command -v qemu-aarch64 || command -v qemu-aarch64-static) || { echo "skipped: the arm64 binary; there is no qemu-aarch64 here"; exit 0; }
chmod +x "$binary"
arm64() { HOME=$dir XDG_STATE_HOME=$dir/state XDG_CACHE_HOME=$dir/cache "$qemu" "$binary" "$@"; }
arm64 --version
arm64 run --steps 5 --batch-size 4 --epochs 1 --session "$dir/run.gpustall" >run.out 2>run.err || { cat run.out run.err; fail "run --steps 5"; }
arm64 report "$dir/run.gpustall" >report.md || fail "report"
head -1 report.md | grep "^# gpustall report" || fail "the report begins otherwise: $(head -1 report.md)"
