"""Standard error is closed."""
# wrap: $RUN 2>&-
# modes: plain json plain-KILL-begun plain-KILL-imported plain-KILL-seen plain-STOP-begun plain-STOP-imported plain-STOP-seen
import training

if __name__ == "__main__":
    training.run()
