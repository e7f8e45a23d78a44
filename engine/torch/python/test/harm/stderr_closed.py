"""Standard error is closed."""
# wrap: $RUN 2>&-
# modes: plain json KILL2 KILL4 STOP3
import training

if __name__ == "__main__":
    training.run()
