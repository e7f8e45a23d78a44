"""A few steps under PyTorch's profiler, when they are asked for."""

import json
import os
import subprocess
import sys
import unittest

import harness
import torch
from torch.utils.data import DataLoader, Dataset

from gpustall import capture, ring

ASKED = 8  # the page's word


class Samples(Dataset):
    def __len__(self):
        return 80

    def __getitem__(self, i):
        return torch.randn(8), i % 4


def ask():
    harness._words[ASKED] += 1


class CaptureTest(unittest.TestCase):
    def train(self, at, stop=None):
        """An epoch; asks for a capture at steps at. Returns what was told of it."""
        torch.set_num_threads(1)
        before = len(harness.messages("captured"))
        model = torch.nn.Linear(8, 4)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for i, (x, y) in enumerate(DataLoader(Samples(), batch_size=4)):
            if i in at:
                ask()
            if i == stop:
                break
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        return harness.messages("captured")[before:]

    def test_steps_are_captured(self):
        def marked():
            return len([s for s in harness.spans(ring.NEXT) if s["flags"] & ring.PROFILED])

        before = marked()
        (told,) = self.train(at=(5,))
        self.assertEqual((told["error"], told["steps"]), ("", capture.STEPS))
        with open(os.path.join(harness.FOLDER, told["path"])) as f:
            names = [e.get("name", "") for e in json.load(f)["traceEvents"]]
        self.assertEqual(len({n for n in names if n.startswith("ProfilerStep#")}), capture.STEPS)
        self.assertIn("aten::addmm", names)
        self.assertIn("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", names)
        self.assertEqual(marked() - before, capture.WARMUP + capture.STEPS)

    def test_again_and_across_epochs(self):
        self.assertEqual(len(self.train(at=(2, 12))), 2)
        self.assertEqual(self.train(at=(17,)), [])
        (told,) = self.train(at=())
        self.assertEqual(told["error"], "")

    def test_a_script_that_profiles_itself(self):
        with torch.autograd.profiler.profile():
            (told,) = self.train(at=(3,))
        self.assertIn("the script runs a profiler itself", told["error"])

    def test_the_end_comes_first(self):
        """The script ends within the capture: its exit code is its own, and why is told."""
        text = """
import harness, shutil, test_capture
harness._owner = 0  # its folder stays until it is read
test_capture.CaptureTest().train(at=(17,))
print([m["error"] for m in harness.messages("captured")])
import atexit
"""
        env = {k: v for k, v in os.environ.items() if k != "GPUSTALL_TORCH"}
        text += "atexit._run_exitfuncs(); print([m['error'] for m in harness.messages('captured')]); shutil.rmtree(harness.FOLDER)"
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", text],
                              capture_output=True, text=True, env=env, cwd=os.path.dirname(os.path.abspath(__file__)), timeout=240)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.splitlines()[0], "[]", done.stderr)
        self.assertIn("the training ended before", done.stdout.splitlines()[1])


if __name__ == "__main__":
    unittest.main()
