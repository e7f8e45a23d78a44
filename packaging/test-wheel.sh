#!/usr/bin/env bash
# Installs a wheel in a fresh environment, without HOME and without Go, and runs a training under it:
# test-wheel.sh WHEEL. The training needs a Python with torch: PYTHON, or that of make test-torch.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
wheel=$(realpath "$1")
base=$(command -v "${PYTHON:-python3}") || { echo "skipped: the wheel; there is no Python here"; exit 0; }
has() { timeout 60 "$1" -c 'import torch' >/dev/null 2>&1; }
torch=$base
has "$torch" || torch=$root/.cache/torch/newest/bin/python
has "$torch" || torch=
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
"${torch:-$base}" -m venv fresh
# clean runs a command as someone does who has nothing but this environment.
clean() { env -i PATH="$dir/fresh/bin:/usr/bin:/bin" TMPDIR="$dir" "$@"; }
clean pip install -q --no-index --disable-pip-version-check "$wheel"
clean gpustall --version
size=$(stat -c %s fresh/bin/gpustall)
((size < 50000000)) || { echo "failed: the wheel's binary has $size bytes, over 50 MB"; exit 1; }

cat >quiet.py <<'P'
import gpustall
batches = [1, 2]
assert gpustall.watch(batches, "batches") is batches
assert gpustall.step() is None and gpustall.step(samples=3) is None
with gpustall.data():
    pass
print("import gpustall does nothing without gpustall")
P
clean python quiet.py

if [[ -z $torch ]]; then
  echo "skipped: a training under the wheel; no Python here has torch (make test-torch installs one)"
  exit 0
fi
"$torch" -c 'import site, torch; print("\n".join(p for p in __import__("sys").path if p.endswith("-packages")))' \
  >"$(clean python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch.pth"
cat >train.py <<'P'
import sys, time
import gpustall, torch
from torch.utils.data import DataLoader, Dataset

class Slow(Dataset):
    def __len__(self): return 400
    def __getitem__(self, i):
        time.sleep(0.002)
        return torch.full((8,), float(i))

model = torch.nn.Linear(8, 1)
batches = 0
for x in gpustall.watch(DataLoader(Slow(), batch_size=8)):
    model(x).sum().backward()
    batches += 1
print("batches", batches, flush=True)
print("module", gpustall.__file__, file=sys.stderr)
sys.exit(3)
P
# ends runs a command that is to exit with 3, as the script does.
ends() { local rc=0; clean XDG_STATE_HOME="$dir/state" "$@" || rc=$?; [[ $rc == 3 ]] || { echo "exit code $rc, not 3: $*"; exit 1; }; }
ends python train.py >alone 2>alone.err
ends gpustall torch --plain -- python train.py >under 2>under.err
fail() { echo "failed: $*"; cat under.err; exit 1; }
ends gpustall lab --out lab -- python train.py >labout 2>lab.err
cmp alone labout || { echo "failed: the script prints something else under gpustall lab"; cat lab.err; exit 1; }
[[ -s lab/optimization_report.html && -s lab/optimization_results.csv ]] || { echo "failed: no lab"; cat lab.err; exit 1; }
cmp alone under || fail "the script prints something else under gpustall"
grep -q "^module .*/fresh/lib/.*/gpustall/" alone.err || fail "without gpustall the installed module is not the one"
grep "^module" under.err | grep -qv /fresh/ || fail "under gpustall the installed module hides that of the launching version"
clean XDG_STATE_HOME="$dir/state" gpustall report latest >report.md
grep -i "input-bound" report.md | head -1 || fail "the report has no verdict"
