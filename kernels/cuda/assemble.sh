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
list=$(mktemp)
trap 'rm -f "$list"' EXIT

# assemble SM MODULE FILE
assemble() {
  "$ptxas" -arch=sm_"$1" -v -o /dev/null "$3" 2>&1 | awk -v sm="$1" -v module="$2" '
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
      print module "\t" entry "\t" sm "\t" regs "\t" shared "\t" spill
    }
    END { exit failed }' >>"$list"
}

modules=$(ls ptx/*.ptx | sed 's,ptx/,,; s,[.].*,,' | sort -u)
for sm in 70 75 80 90 100; do
  for module in $modules; do
    # The driver takes the newest PTX that the GPU runs: PTX in plan.go.
    f=
    for arch in 70 75 80; do
      if [ "$arch" -le "$sm" ] && [ -f "ptx/$module.sm_$arch.ptx" ]; then f=ptx/$module.sm_$arch.ptx; fi
    done
    [ -n "$f" ] || continue
    assemble $sm "$module" "$f"
  done
done
for module in $modules; do
  if [ -f "ptx/$module.sm_90a.ptx" ]; then assemble 90a "$module" "ptx/$module.sm_90a.ptx"; fi
done
{
  echo "# $("$ptxas" --version | sed -n 's/.*, \(V[0-9.]*\)$/ptxas \1/p')"
  printf '# module\tentry\tsm\tregisters\tstatic shared\tspilled bytes\n'
  LC_ALL=C sort "$list"
} >"$out"
if awk -F'\t' '!/^#/ && $6 > 0 { print "spills " $6 " bytes: " $2 " on sm_" $3; bad = 1 } END { exit !bad }' "$out"; then
  exit 1
fi
