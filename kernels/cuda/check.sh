#!/bin/sh
# check.sh [--again]: are the committed PTX and the table of resources what the
# sources give? For CI. It says what it skips, and why. What passed in full is noted
# in ptx/CHECKED and compiled again only when a file of it changes, or with --again:
# it takes minutes.
set -eu
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
partly=
skip() {
  partly=yes
  echo "kernels: skipped: $*"
}
inputs() { LC_ALL=C sha256sum build.sh assemble.sh *.cu *.h ptx/*.ptx ptx/SOURCES ptx/resources.tsv; }

if [ "${1-}" != --again ] && [ -f ptx/CHECKED ] && inputs | diff -q - ptx/CHECKED >/dev/null; then
  echo "kernels: nothing changed since the PTX and the resources were checked (kernels/cuda/check.sh --again compiles them anyway)"
  exit 0
fi

clang=${CLANG:-clang-19}
if ! command -v "$clang" >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  { apt-get update -qq && apt-get install -qq -y --no-install-recommends clang-19; } >"$work/apt.log" 2>&1 || true
fi
if command -v "$clang" >/dev/null; then
  CLANG=$clang ./build.sh "$work/ptx"
  if diff -rq -x resources.tsv -x CHECKED -x TESTED ptx "$work/ptx"; then
    echo "kernels: the PTX is what $("$clang" --version | head -n 1) makes of the sources"
  else
    echo "kernels: the PTX is not what the sources give: run kernels/cuda/build.sh with clang 19.1.7 and commit it" >&2
    exit 1
  fi
else
  skip "comparing the PTX: no $clang, and no way to install it here"
fi

ptxas=${PTXAS:-}
[ -n "$ptxas" ] || ptxas=$(command -v ptxas || true)
if [ -z "$ptxas" ]; then
  # The assembler alone, from the package that carries it.
  wheel=nvidia-cuda-nvcc-cu12==12.9.86
  if ! command -v python3 >/dev/null || ! python3 -m pip --version >/dev/null 2>&1; then
    skip "assembling the PTX: no ptxas, and no pip to fetch $wheel"
    exit 0
  fi
  if ! python3 -m pip download -q --disable-pip-version-check --no-deps -d "$work/wheel" "$wheel" >"$work/pip.log" 2>&1; then
    skip "assembling the PTX: pip cannot fetch $wheel: $(tail -n 1 "$work/pip.log")"
    exit 0
  fi
  python3 -m zipfile -e "$work"/wheel/*.whl "$work/cuda"
  ptxas=$work/cuda/nvidia/cuda_nvcc/bin/ptxas
  chmod +x "$ptxas"
fi
PTXAS=$ptxas ./assemble.sh "$work/resources.tsv"
if [ "$(head -n 1 "$work/resources.tsv")" != "$(head -n 1 ptx/resources.tsv)" ]; then
  skip "comparing the resources: another assembler ($(head -n 1 "$work/resources.tsv")); nothing spills"
elif diff ptx/resources.tsv "$work/resources.tsv"; then
  echo "kernels: $(grep -vc '^#' ptx/resources.tsv) assembled kernels, no spills"
else
  echo "kernels: ptx/resources.tsv is old: run kernels/cuda/assemble.sh and go test ./kernels/cuda -update" >&2
  exit 1
fi
[ -n "$partly" ] || inputs >ptx/CHECKED
