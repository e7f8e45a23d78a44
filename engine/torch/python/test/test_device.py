"""The device's times, on a stand-in for torch.cuda: this has not run on a GPU."""

import os
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

import harness
import standin
from standin import StandIn

from gpustall import device, ring


class Loop:
    def __init__(self):
        self.spans = []

    def record(self, kind, start, end, step=-1, flags=0):
        assert kind == ring.DEVICE
        self.spans.append((step, start, end))


class Clock:
    """The host's clock of a test, in ns. It moves by 1 us with each look at it, and by what is slept."""

    def __init__(self):
        self.at = 10**9

    def __call__(self):
        self.at += 1000
        return self.at

    def sleep(self, seconds):
        self.at += int(seconds * 1e9)

    def wait(self, cuda):
        """Lets the device do all that it has."""
        self.at = max(self.at, cuda.until) + 10_000_000


def run(text, env):
    """Runs a script."""
    here = os.path.dirname(os.path.abspath(__file__))
    return subprocess.run([sys.executable, "-W", "ignore", "-c", text], env=env, cwd=here, capture_output=True, text=True, timeout=300)


def train(clock, cuda, loop, steps, load, compute):
    """A loop that loads for so long and enqueues work of so long."""
    timer = device.Device(loop, cuda)
    for step in range(steps):
        if step:
            timer.ends(step - 1)
        clock.sleep(load)
        timer.begins(step)
        cuda.work(int(compute * 1e9))
    timer.ends(steps - 1)
    clock.wait(cuda)
    timer.resolve()


class DeviceTest(unittest.TestCase):
    def setUp(self):
        self.clock = Clock()
        for module in device, standin:
            patch = mock.patch.object(module, "now", self.clock)
            patch.start()
            self.addCleanup(patch.stop)

    def idle(self, loop):
        return [(b[1] - a[2]) / 1e9 for a, b in zip(loop.spans, loop.spans[1:])]

    def test_a_slow_loader_leaves_the_device_empty(self):
        loop = Loop()
        train(self.clock, StandIn(), loop, 20, load=0.02, compute=0.005)
        self.assertEqual([s[0] for s in loop.spans], list(range(20)))
        for gap in self.idle(loop):
            self.assertGreater(gap, 0.014)
        took = sorted((end - start) / 1e9 for _, start, end in loop.spans)
        self.assertAlmostEqual(took[len(took) // 2], 0.005, delta=0.0005)

    def test_a_fast_loader_does_not(self):
        loop = Loop()
        train(self.clock, StandIn(), loop, 20, load=0.002, compute=0.02)
        gaps = sorted(self.idle(loop))
        self.assertLess(gaps[len(gaps) // 2], 0.002)

    def test_clocks_that_drift_apart(self):
        """Times stay on the host's clock, also past a new anchor and where the GPU is seldom idle."""
        for drift in (0.001, -0.001):
            cuda, loop = StandIn(), Loop()
            cuda.drift = drift
            with mock.patch.object(device, "RENEW", 5_000_000_000):
                timer, ended = device.Device(loop, cuda), []
                for step in range(3000):
                    timer.begins(step)
                    cuda.work(5_000_000)
                    ended.append(cuda.until)
                    timer.ends(step)
                    if step % 20 == 0:  # now and then the loop waits for data
                        self.clock.wait(cuda)
                    else:
                        self.clock.sleep(0.0049)
                self.clock.wait(cuda)
                timer.resolve()
            self.assertEqual(len(loop.spans), 3000)
            off = sorted(abs(end - at) for (_, _, end), at in zip(loop.spans[400:], ended[400:]))
            # The GPU is idle every 0.11 s, so comparisons are 0.44 s apart at most. The middle one of five is at most
            # three times as old. Uncorrected, the last step would be 15 ms off.
            self.assertLess(off[-1], 1_400_000)

    def test_a_step_of_unknown_beginning(self):
        """It counts from its first backward pass on, unless the device was busy all the time."""
        for before, least, most in (0, 0, 8_000_000), (100_000_000, 10_900_000, 12_000_000):
            cuda, loop = StandIn(), Loop()
            timer = device.Device(loop, cuda)
            cuda.work(before)
            timer.begins(0)
            cuda.work(10_000_000)  # the forward pass
            self.clock.sleep(0.02)
            timer.resumes()
            cuda.work(1_000_000)
            timer.ends(0)
            self.clock.wait(cuda)
            timer.resolve()
            ((_, start, end),) = loop.spans
            self.assertTrue(least <= end - start <= most, (before, end - start))

    def test_a_capture(self):
        """While the script captures a graph, no event is recorded or asked; the steps around it have their times."""
        cuda, loop = StandIn(), Loop()
        timer = device.Device(loop, cuda)
        for step in range(6):
            cuda.capturing = step == 3
            timer.begins(step)
            cuda.capturing = step in (2, 3)
            timer.resumes()
            self.assertEqual(timer.mark(step) is None, step in (2, 3))
            timer.resolve()
            timer.ends(step)
        cuda.capturing = False
        timer.resolve()
        self.assertIs(getattr(loop, "device", self), self, "it is watched no more")
        self.assertEqual([s[0] for s in loop.spans], [0, 1, 4, 5])

    def test_another_stream(self):
        """The current stream is asked of PyTorch's slow function only where another one became current."""
        import torch

        cuda, loop, current, calls = types.ModuleType("cuda"), Loop(), [0], []

        def slow():
            calls.append(current[0])
            return "stream %d" % current[0]

        cuda.__dict__.update(is_current_stream_capturing=lambda: False, current_stream=slow)
        where = mock.patch.object(torch._C, "_cuda_getDevice", lambda: 0, create=True)
        which = mock.patch.object(torch._C, "_cuda_getCurrentStream", lambda device: (current[0], device, 1), create=True)
        with where, which:
            timer, got = device.Device(loop, cuda), []
            for current[0] in (0, 0, 1, 1, 0):
                got.append(timer._current())
        self.assertEqual((got, calls), (["stream %d" % i for i in (0, 0, 1, 1, 0)], [0, 1, 0]))

    def test_nothing_waits(self):
        """A device that hangs costs no more than the oldest steps' times."""
        cuda, loop = StandIn(), Loop()
        cuda.work(10**15)
        timer = device.Device(loop, cuda)
        for step in range(200):
            timer.begins(step)
            timer.ends(step)
        self.assertEqual((loop.spans, len(timer.waiting), timer.lost), ([], device.MOST, 200 - device.MOST))

    def test_the_last_steps(self):
        """They are known when the process has ended: of an epoch, of a loop that was left with
        break, of a child of multiprocessing, and of a script that came to the GPU after its first
        batch; those of a device that hangs are given up."""
        for text, steps, most in ((WHOLE, range(5), 5), (LEFT, range(3), 5), (CHILD, range(5), 5), (LATE, range(1, 6), 5), (HANGS, [], 10)):
            with tempfile.TemporaryDirectory() as folder:
                env = dict(os.environ, GPUSTALL_TORCH=folder, PYTHONPATH="")  # harness begins the hook
                done = run(COMMON + text, env)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                spans = harness.spans(ring.DEVICE, folder)
                self.assertEqual([s["step"] for s in spans], list(steps), text)
                took = [s["end"] - s["start"] for s in spans]
                if took:  # a thread that loses its core before it enqueues the work makes a step longer
                    self.assertGreaterEqual(min(took), 50_000_000)
                    self.assertLess(min(took), 80_000_000)
                self.assertLess(float(done.stdout or 0), most)
                (hello,) = harness.messages("hello", folder)
                gpu = [(m["cuda"], m["step"]) for m in harness.messages("device", folder)]
                self.assertEqual((hello["cuda"], gpu), (None, [("stand-in", 1)]) if text == LATE else ("stand-in", []))

    def test_a_device_that_fails(self):
        """It is watched no more, which is said once; the loop still is."""
        with tempfile.TemporaryDirectory() as folder:
            env = dict(os.environ, GPUSTALL_TORCH=folder, PYTHONPATH="")
            done = run(COMMON + FAILS, env)
            self.assertEqual((done.returncode, done.stderr), (0, "gpustall: the device is watched no more: RuntimeError: as planned\n"))
            self.assertEqual([s["step"] for s in harness.spans(ring.BODY, folder)], list(range(5)))
            self.assertEqual([(m["cuda"], m["other"]) for m in harness.messages("device", folder)], [(None, "stand-in")])


COMMON = """
import harness, standin, atexit, sys, time, torch
from torch.utils.data import DataLoader
cuda = standin.install()
def train(steps, left=99):
    for i, x in enumerate(DataLoader(list(range(4 * steps)), batch_size=4)):
        cuda.work(50_000_000)
        if i + 1 == left:
            break
"""
WHOLE = "train(5)"
LEFT = "train(5, 3); time.sleep(0.3)"
CHILD = """
import multiprocessing
child = multiprocessing.get_context("fork").Process(target=train, args=(5,))
child.start()
child.join()
"""
LATE = """
torch.cuda.is_initialized = lambda: False
x = next(iter(DataLoader(list(range(20)), batch_size=4)))
torch.cuda.is_initialized = lambda: True
train(5)
"""
HANGS = """
begin = time.monotonic()
atexit.register(lambda: print(time.monotonic() - begin))  # after what multiprocessing does at the exit
cuda.work(10**15)
train(5)
"""

FAILS = """
def elapsed_time(start, end):
    raise RuntimeError("as planned")
standin._Event.elapsed_time = elapsed_time
train(5)
"""

if __name__ == "__main__":
    unittest.main()
