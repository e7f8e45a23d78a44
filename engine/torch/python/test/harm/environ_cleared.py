"""The environment is emptied before PyTorch is imported."""
import os

os.environ.clear()
import training

if __name__ == "__main__":
    training.run()
