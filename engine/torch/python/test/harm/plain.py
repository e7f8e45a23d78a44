"""A stock loop with workers."""
# quick
import training

if __name__ == "__main__":
    training.run()
