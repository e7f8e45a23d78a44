"""The session is on a full disk."""
# needs: unshare -m true
# wrap: unshare -m bash -c "mkdir -p $HOME/.local/state && mount -t tmpfs -o size=600k tmpfs $HOME/.local/state && $RUN"
# says: not in the session's file
# modes: plain
import training

if __name__ == "__main__":
    for _ in range(3):
        training.run()
