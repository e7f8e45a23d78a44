#!/bin/sh
# build.sh [DIR]: compiles the kernels to PTX in DIR (default: ptx, beside this
# script). It needs clang 19 (CLANG=clang-19) and nothing of NVIDIA's.
set -eu
cd "$(dirname "$0")"
out=${1:-ptx}
clang=${CLANG:-clang-19}
mkdir -p "$out"

# compile SM SOURCE MODULE [FLAG...]
compile() {
  sm=$1 source=$2 module=$3
  shift 3
  # clang raises a PTX version that is too low by itself: see .version in the output.
  "$clang" -x cuda --cuda-device-only --cuda-gpu-arch=sm_"$sm" -nocudainc -nocudalib \
    -Xclang -target-feature -Xclang +ptx70 -std=c++17 -O3 -ffp-contract=fast -fno-exceptions -fno-rtti \
    -Wall -Wextra -Wno-unused-parameter -Werror "$@" -S "$source" -o "$out/$module.sm_$sm.ptx"
}

for sm in 70 80; do
  for f in elementwise optimizer; do
    compile $sm $f.cu $f
  done
done
