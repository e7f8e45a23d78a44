#!/bin/sh
# assemble.sh [FILE]: assembles the PTX with ptxas for the GPUs we name, and lists
# each kernel's registers, static shared memory and spills in FILE (default:
# ptx/resources.tsv). It fails when a kernel spills, or when the assembler cannot
# leave wgmma asynchronous. PTXAS names the assembler.
set -eu
cd "$(dirname "$0")"
out=${1:-ptx/resources.tsv}
ptxas=${PTXAS:-ptxas}
command -v "$ptxas" >/dev/null || { echo "assemble.sh: no $ptxas: name the assembler in PTXAS" >&2; exit 1; }

# assemble SM MODULE FILE writes a line for each kernel.
if [ "$out" = --one ]; then
  "$ptxas" -arch=sm_"$2" -v -o /dev/null "$4" 2>&1 | awk -v sm="$2" -v module="$3" '
    /error|fatal/ { print > "/dev/stderr"; failed = 1 }
    # C75xx: what ptxas does when it cannot leave wgmma asynchronous: it waits after
    # each, or puts in the fence or the wait that it misses.
    /\(C75[0-9][0-9]\)|serialized/ { print > "/dev/stderr"; failed = 1 }
    /Compiling entry function/ { split($0, q, "\047"); entry = q[2] }
    /spill stores/ { match($0, /[0-9]+ bytes spill stores/); spill = substr($0, RSTART) + 0 }
    / Used / {
      match($0, /Used [0-9]+/); regs = substr($0, RSTART + 5, RLENGTH - 5)
      shared = 0
      if (match($0, /[0-9]+ bytes smem/)) shared = substr($0, RSTART) + 0
      lines = lines module "\t" entry "\t" sm "\t" regs "\t" shared "\t" spill "\n"
    }
    END { printf "%s", lines; exit failed }'
  exit
fi

list=$(mktemp)
trap 'rm -f "$list" "$list".*' EXIT
modules=$(ls ptx/*.ptx | sed 's,ptx/,,; s,[.].*,,' | sort -u)
for sm in 70 75 80 86 89 90 100 120; do
  for module in $modules; do
    # The driver takes the newest PTX that the GPU runs: PTX in plan.go.
    f=
    for arch in 70 75 80; do
      if [ "$arch" -le "$sm" ] && [ -f "ptx/$module.sm_$arch.ptx" ]; then f=ptx/$module.sm_$arch.ptx; fi
    done
    if [ -n "$f" ]; then echo $sm "$module" "$f"; fi
  done
done >"$list.jobs"
for module in $modules; do
  if [ -f "ptx/$module.sm_90a.ptx" ]; then echo 90a "$module" "ptx/$module.sm_90a.ptx"; fi
done >>"$list.jobs"
# Each in a process, as many as there are cores; the lines of one are written at once.
PTXAS=$ptxas xargs -n 3 -P "$(nproc)" ./assemble.sh --one <"$list.jobs" >"$list"
{
  echo "# $("$ptxas" --version | sed -n 's/.*, \(V[0-9.]*\)$/ptxas \1/p')"
  printf '# module\tentry\tsm\tregisters\tstatic shared\tspilled bytes\n'
  LC_ALL=C sort "$list"
} >"$out"
# Compilers from CUDA 13 on keep one or two registers of the forward kernels for odd
# channel counts in memory on sm_120, outside of their loops; 12.9 does not.
if awk -F'\t' '!/^#/ && $6 > ($3 == 120 && $2 ~ /^conv_forward_.*_simt64x64v1$/ ? 8 : 0) { print "spills " $6 " bytes: " $2 " on sm_" $3; bad = 1 } END { exit !bad }' "$out"; then
  exit 1
fi
