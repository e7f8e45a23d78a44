"""The command ends, and the training goes on without it, with workers that begin later."""
# wrap: $RUN; while ! [ -e done ]; do sleep 0.2; done
# modes: plain json
import os
import subprocess
import sys
import time

import training


def begin():
    time.sleep(4)  # the command, and gpustall, have ended
    training.run()
    open("done", "w").close()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        begin()
    else:
        subprocess.Popen([sys.executable, "-W", "ignore", os.path.basename(__file__), "alone"], stdout=open("printed", "w"))
        training.run()
