#!/usr/bin/env bash
# Records the sessions beside this script again, on the machine it runs on:
#
#   make bin/gpustall emulated
#   testdata/sessions/record.sh bin/gpustall .cache/build/emulated VENV   # one with PyTorch
#   go test ./engine/command -run TestGuard -update
#
# Do so only when the session format leaves no other way: a session recorded anew
# guards nothing that changed before it. Needs tmux, sqlite3 and unshare.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
binary=$(realpath "$1")
driver=$(realpath "$2") # the folder of the emulated libcuda.so.1
venv=$(realpath "$3")

# The recorded command lines and paths are all below this folder.
work=/tmp/gpustall-data
rm -rf $work
mkdir -p $work/bin
cp "$binary" $work/bin/gpustall
cd $work
clean=(env -i "HOME=$work" "PATH=$work/bin:/usr/bin:/bin" TERM=xterm-256color LANG=C.UTF-8 TZ=UTC)
"${clean[@]}" gpustall data make cifar10 cifar10 --samples 1280
"${clean[@]}" gpustall data make cifar10 larger --samples 8192

# record NAME FLAG... trains without a screen; "last" files hold the summary.
record() {
  local name=$1
  shift
  "${clean[@]}" ${LIBRARIES:+LD_LIBRARY_PATH=$LIBRARIES} gpustall run --data cifar10 --session "$name.gpustall" --json "$@" | tail -n 1 >"$name.last" || true
}

# The knobs in the order of the screen's panel, to count key presses by.
knobs=(num_workers prefetch_factor pin_memory persistent_workers in_order batch_size shuffle drop_last timeout
  device_transforms ceiling precision gradient_accumulation checkpointing capture autotune time_ops
  inject_read inject_cpu inject_straggler)

keys() {
  tmux -L gpustall-record send-keys "$@"
  sleep 0.15
}

# open NAME FLAG... trains with the screen open, for knobs to be changed.
open() {
  local name=$1
  shift
  tmux -L gpustall-record -f /dev/null new-session -d -x 160 -y 48 "${clean[@]}" gpustall --session "$name.gpustall" "$@"
  until tmux -L gpustall-record capture-pane -p | grep -q samples/s; do sleep 0.2; done
  keys 2
}

# knob NAME [VALUE] types a value, or turns a switch; apply applies what is staged.
knob() {
  keys PageUp PageUp PageUp
  local k
  for k in "${knobs[@]}"; do
    [[ $k == "$1" ]] && break
    keys Down
  done
  keys i
  [[ $# == 1 ]] || keys "$2" Enter
}

apply() {
  keys Enter
  sleep 1.5
}

close() {
  keys q
  keys y
  while tmux -L gpustall-record has-session 2>/dev/null; do sleep 0.1; done
}

cpu=(--device cpu --model cnn)

open plain "${cpu[@]}" --data cifar10 --batch-size 256
knob num_workers 2
apply
knob batch_size 128
knob pin_memory
apply
knob in_order
knob time_ops
apply
close

# One worker in three is late with each of its batches; then order no longer
# matters.
open stragglers "${cpu[@]}" --data cifar10 --batch-size 128 --num-workers 3 --inject straggler=2:400ms
sleep 2
knob in_order
apply
close

# The modelled T4 has 16 GB: a batch of 8192 does not fit, and the run goes on.
open out-of-memory --data larger --device emu:t4 --model resnet18 --batch-size 256 --num-workers 2
knob batch_size 8192
apply
knob batch_size 128
apply
close

LIBRARIES=$driver record capture --device cuda --model cnn --batch-size 16 --steps 24 --capture --autotune off --num-workers 1

"${clean[@]}" gpustall run --data cifar10 --session killed.gpustall --steps 1000 "${cpu[@]}" --batch-size 128 --num-workers 2 >/dev/null &
sleep 4
kill -KILL $!
wait $! || true

# A file system of this size is full after some seconds.
unshare -rm bash -c "mount -t tmpfs -o size=1220k none /mnt && cd /mnt &&
  ${clean[*]} gpustall run --data $work/cifar10 --session full-disk.gpustall ${cpu[*]} --batch-size 32 --num-workers 4 --steps 150 --json |
  tail -n 1 >$work/full-disk.last; cp /mnt/full-disk.gpustall* $work" || true

record ceiling "${cpu[@]}" --batch-size 128 --ceiling --steps 20
record injected "${cpu[@]}" --batch-size 64 --num-workers 1 --inject read=2ms --inject cpu=1ms --steps 20
record diverged "${cpu[@]}" --batch-size 64 --lr 1e30 --steps 12

# PyTorch trainings. attach needs gdb or lldb.
ln -s "$venv" venv
cp "$here/train.py" .
clean+=(OMP_NUM_THREADS=1)
watch() { # NAME FLAG... -- COMMAND...
  "${clean[@]}" gpustall torch --plain --session "$1.gpustall" "${@:2}" || true
}
watch inline --steps 50 -- venv/bin/python train.py inline
watch changing --steps 90 -- venv/bin/python train.py changing
watch epochs --steps 50 -- venv/bin/python train.py epochs
watch stream --steps 50 -- venv/bin/python train.py stream
watch validation --steps 60 -- venv/bin/python train.py validation
watch ranks --steps 60 -- venv/bin/python -m torch.distributed.run --nproc-per-node 2 train.py ranks
watch tuned --steps 400 --tune --budget 40s -- venv/bin/python train.py slow
"${clean[@]}" venv/bin/python train.py map &
sleep 12
timeout -s INT 20 "${clean[@]}" gpustall attach --plain --session attached.gpustall $! || true
kill $!
wait $! || true

# The version of the kernel says much of one machine and nothing of gpustall.
sqlite3 tuned.gpustall "DELETE FROM spans WHERE id < (SELECT max(id) - 12 FROM spans)" # most of its size
perl -pi -e 's/\{"Name":"kernel","Value":"[^"]*"\},/" " x length $&/ge' killed.gpustall* # which opening would change
for s in *.gpustall; do
  [[ $s == killed.gpustall ]] && continue
  sqlite3 "$s" "UPDATE doc SET value = replace(value, '{\"Name\":\"kernel\",\"Value\":\"$(uname -r)\"},', ''), crc = NULL WHERE key = 'meta'" VACUUM
done
if grep -l "$(uname -r)" *.gpustall *-wal; then
  echo "these name the kernel still: record them again" >&2 # the text fell on the end of a page
  exit 1
fi
for s in *.gpustall; do "${clean[@]}" gpustall report "$s" >/dev/null; done

# The stragglers again, after a disk has changed a step and an op and cut two chunks
# of spans.
cp stragglers.gpustall damaged.gpustall
sqlite3 damaged.gpustall "UPDATE steps SET busy = busy * 2 WHERE idx = 5" "UPDATE ops SET calls = calls + 1 WHERE pos = 3" \
  "UPDATE spans SET data = CAST(substr(data, 1, length(data) / 2) AS BLOB) WHERE id IN (SELECT id FROM spans LIMIT 2 OFFSET 3)"

rm -f "$here"/*.gz
for s in *.gpustall killed.gpustall-wal; do gzip -9nc "$s" >"$here/$s.gz"; done
ls -l "$here"
