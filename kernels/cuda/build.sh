#!/bin/sh
# build.sh [DIR]: compiles the kernels to PTX in DIR (default: ptx, beside this
# script). It needs clang 19 (CLANG=clang-19) and nothing of NVIDIA's.
set -eu
export LC_ALL=C # the order of names
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
  for f in elementwise optimizer reduce batchnorm pool linear xent; do
    compile $sm $f.cu $f
  done
  # Its floats are the loader's to the bit, so nothing is fused.
  compile $sm transforms.cu transforms -ffp-contract=off
  # A module for each type, so that a driver compiles only what a run uses:
  # KD_TYPES is conv.h's mask of types.
  for f in conv_forward conv_backward_data conv_backward_weight; do
    compile $sm $f.cu ${f}_fp32 -DKD_TYPES=1
    compile $sm $f.cu ${f}_fp16 -DKD_TYPES=4
    compile $sm $f.cu ${f}_bf16 -DKD_TYPES=8
  done
done
for f in conv_forward conv_backward_data conv_backward_weight; do
  compile 80 $f.cu ${f}_tf32 -DKD_TYPES=2
  compile 75 $f.cu ${f}_fp16 -DKD_TYPES=4 -DKD_TURING # its tensor cores know fp16 alone
done
# Hopper's own instructions, for compute capability 9.0 alone.
for d in forward backward_data backward_weight; do
  compile 90a conv_wgmma_$d.cu conv_${d}_fp16_wgmma -DKD_TYPES=4
  compile 90a conv_wgmma_$d.cu conv_${d}_bf16_wgmma -DKD_TYPES=8
  compile 90a conv_wgmma_$d.cu conv_${d}_bf16_wgmma_unfenced -DKD_TYPES=8 -DKD_UNFENCED
done

# What this was made of, for those who cannot make it again: sources_test.go and
# the emulated driver refuse PTX that is older than its sources.
sha256sum build.sh *.cu *.h >"$out/SOURCES"
