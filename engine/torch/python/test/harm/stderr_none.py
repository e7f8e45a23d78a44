"""sys.stderr is None."""
import sys

sys.stderr = None
import training

if __name__ == "__main__":
    training.run()
