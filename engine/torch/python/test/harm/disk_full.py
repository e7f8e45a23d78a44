"""The session is on a full disk."""
# needs: unshare -m true
# wrap: S=$HOME/.local/state; mkdir -p $S; unshare -m bash -c "mount -t tmpfs -o size=600k tmpfs $S; $RUN; rc=\$?; cp $S/*/*/*.log $HOME 2>&-; exit \$rc"
# says: database or disk is full
# modes: plain json screen
import training

if __name__ == "__main__":
    for _ in range(3):
        training.run()
