"""There is no place for the state."""
# wrap: HOME=/dev/null/none XDG_STATE_HOME=/dev/null/none $RUN
# modes: plain json
import training

if __name__ == "__main__":
    training.run()
