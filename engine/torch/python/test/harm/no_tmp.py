"""TMPDIR is not there and HOME is not set."""
# wrap: unset HOME; TMPDIR=/dev/null/none $RUN
# modes: plain
import training

if __name__ == "__main__":
    training.run()
