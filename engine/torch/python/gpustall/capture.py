"""Captures: a few steps under PyTorch's own profiler, when the screen asks for them.

`gpustall import` reads the resulting trace. Steps under the profiler take longer than others, and are marked.
"""

import atexit
import os

from gpustall import hook, process

STEPS = 5
WARMUP = 1  # steps in which the profiler starts up


class Capture:
    """A capture. It begins with the step before which it was asked for."""

    def __init__(self, number):
        import torch
        from torch import profiler

        self.path = os.path.join(process.FOLDER, "trace-%d-%d.json" % (os.getpid(), number))
        self.error = ""
        self.over = False
        if torch.autograd._profiler_enabled():
            raise RuntimeError("the script runs a profiler itself")
        plan = profiler.schedule(wait=0, warmup=WARMUP, active=STEPS, repeat=1)
        self.profile = profiler.profile(schedule=plan, on_trace_ready=self._write)
        self.left = WARMUP + STEPS
        self.profile.start()
        atexit.register(self.end)

    def _write(self, profile):
        try:
            profile.export_chrome_trace(self.path)
        except Exception as error:
            hook.pass_on(error)
            self.error = process.said(error)

    def step(self):
        """Notes that a step ended."""
        self.left -= 1
        self.profile.step()
        if self.left <= 0:
            self.end()

    def end(self):
        """Ends the capture, whether or not all of its steps ran."""
        if self.over:
            return
        self.over = True
        atexit.unregister(self.end)
        self.profile.stop()
        if self.left > 0:
            self.error = "the training ended before %d steps more" % (WARMUP + STEPS)
        elif not self.error and not os.path.exists(self.path):
            self.error = "the profiler wrote nothing"
        process.current().tell("captured", path=os.path.basename(self.path), steps=STEPS, error=self.error)


def look(state):
    """Begins a capture that was asked for, or continues one. The caller calls it between two steps."""
    asked = state.control.captures()
    try:
        if state.capture is not None:
            state.capture.step()
            if state.capture.over:
                state.capture = None
        elif asked != state.captures and state.leads:
            state.capture = Capture(asked)
        state.captures = asked
    except Exception as error:
        hook.pass_on(error)
        state.capture, state.captures = None, asked
        state.tell("captured", path="", steps=0, error=process.said(error))
