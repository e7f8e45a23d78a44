#!/usr/bin/env bash
# Tests what runs inside a PyTorch training, and gpustall with it, in virtual environments
# of its own under .cache/torch: with the oldest and the newest PyTorch, or those named.
#
#   run.sh            the oldest and the newest (make test-torch)
#   run.sh all        those between as well (make test-torch-all)
#   run.sh install    the environment of quick, in CI (.ci/test)
#   run.sh quick      some of it, with bin/gpustall and a Python that has torch; in CI with the newest from PyPI; else says so (.ci/test)
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../../.." && pwd)
what=${1:-some}
base=${PYTHON:-python3}
rc=0

# has reports whether a Python has torch, and quickly.
has() { timeout 60 "$1" -c 'import torch' >/dev/null 2>&1; }

# installed makes the environment of a name, with packages from PyPI, or says why it cannot.
installed() {
  local env=$root/.cache/torch/$1 failed="" version
  shift
  if has "$env/bin/python"; then return; fi
  mkdir -p "$root/.cache/torch"
  version=$("$base" --version 2>/dev/null || echo "$base")
  if ! "$base" -m venv "$env" >"$env.log" 2>&1; then
    failed="$version makes no virtual environment with pip"
  elif ! timeout 900 "$env/bin/pip" install -q --retries 1 --timeout 15 "$@" >"$env.log" 2>&1; then
    failed="$* cannot be installed for $version"
  else
    return 0
  fi
  echo "skipped: $failed ($({ grep -i error "$env.log" || cat "$env.log"; } | tail -n 1)); see ${env#"$root"/}.log"
  rm -rf "$env" # else another Python would find it, and go on with this one's
  return 1
}

newest=$root/.cache/torch/newest/bin/python
if [[ $what == install ]]; then # what quick needs, beforehand
  [[ -z ${CI-} ]] || has "$base" || installed newest torch numpy || true
  exit 0
fi
if [[ $what == quick ]]; then
  python=$base
  if ! has "$python"; then
    python=$newest
    if [[ ${CI-} ]]; then
      installed newest torch numpy || exit 0
    elif ! has "$python"; then
      echo "skipped: what runs inside PyTorch; no Python here has torch (make test-torch installs one, as CI=true does)"
      exit 0
    fi
  fi
  (cd "$here" && GPUSTALL_CHANGES=20 timeout 1800 "$python" -W ignore -m unittest -f \
    test_live.LiveTest.test_each_once_in_order test_live.LiveTest.test_equal_to_stock_until_a_change test_guest test_hook.HookTest.test_script_module_and_command test_parts test_device test_trial test_looks) || exit 1
  cd "$root" || exit 1
  "$python" engine/torch/python/test/harm.py bin/gpustall --quick || exit 1
  "$python" engine/torch/python/test/fleet.py bin/gpustall --quick || exit 1
  GPUSTALL_PYTHON=$python go test -count=1 -timeout 4m -run '^TestPyTorch$' ./engine/torch/tcpstore || exit 1
  GPUSTALL_PYTHON=$python exec go test -count=1 -timeout 4m -run '^TestClients$/^a_plain_loop$' ./engine/torch/bridge
fi

# one tests with a version of PyTorch, or says why it cannot.
one() {
  local env=$root/.cache/torch/$1
  echo "== PyTorch, $1"
  installed "$@" || return
  (cd "$here" && "$env/bin/python" -W ignore -m unittest test_live test_trial test_guest test_own test_hook test_turns test_parts test_device test_ranks test_capture test_looks) || rc=1
  (cd "$root" && GPUSTALL_PYTHON=$env/bin/python go test -count=1 -v -timeout 10m -run '^Test(Clients|Ranks)$' ./engine/torch/bridge) || rc=1
  (cd "$root" && go build -o bin/gpustall . && "$env/bin/python" engine/torch/python/test/harm.py bin/gpustall --quick) || rc=1
}

one 1.13.1 torch==1.13.1 'numpy<2'
if [[ $what == all ]]; then
  one 2.0.1 torch==2.0.1 'numpy<2'
  one 2.4.1 torch==2.4.1 'numpy<2'
  one 2.6.0 torch==2.6.0 'numpy<3'
fi
one newest torch torchvision numpy lightning accelerate transformers
exit $rc
