"""A stock loop with workers."""
import training

if __name__ == "__main__":
    training.run()
