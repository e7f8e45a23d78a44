"""The log of what the script prints is on a full disk."""
# needs: unshare -m true
# wrap: S=$HOME/.local/state; mkdir -p $S; unshare -m bash -c "mount -t tmpfs -o size=600k tmpfs $S; head -c 590k /dev/zero >$S/full; $RUN"
# modes: plain json screen
import training

if __name__ == "__main__":
    for _ in range(3):
        training.run()
        for n in range(1000):
            print("line", n, "x" * 99, flush=True)
