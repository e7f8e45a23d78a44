"""Backward passes and optimizers' steps: told of, and nothing is different for it."""

import json
import os
import pickle
import subprocess
import sys
import time
import traceback
import unittest
import unittest.mock

import harness
import torch
from torch.utils.data import DataLoader

from gpustall import parts, process, ring, steps

HAS_HOOKS = hasattr(sys.modules[torch.optim.Optimizer.__module__], "register_optimizer_step_pre_hook")

COMPILED = """
import json, sys
how = sys.argv[1]
if how != "bare":
    import harness
import torch
from torch.utils.data import DataLoader
torch.set_num_threads(1)

def train(loader):
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.Adam(model.parameters())
    forward = torch.compile(lambda x: model(x).square().mean(), backend="eager", fullgraph=True)
    step = torch.compile(optimizer.step, backend="eager")
    whole = torch.compile(lambda x: model(x).square().mean().backward(), backend="eager")
    for x in loader:
        forward(x.float()).backward()
        step()
        whole(x.float())
        optimizer.step()
        optimizer.zero_grad()
    return [p.tolist() for p in model.parameters()], torch._dynamo.utils.counters["graph_break"], dict(torch._dynamo.utils.counters["stats"])

data = torch.arange(24).reshape(6, 4)
loader = DataLoader(data, batch_size=2) if how == "loader" else data.split(2)
train(loader)
done = train(loader)
if how != "bare":
    from gpustall import manual, parts
    assert parts._installed
    assert ("watch" in manual._stepped.__dict__) == (how == "optimizer")
print(json.dumps(done))
"""


class Failing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, grad):
        raise KeyError("as planned")


class PartsTest(unittest.TestCase):
    def setUp(self):
        torch.set_num_threads(1)
        harness.forget()
        self.model = torch.nn.Linear(4, 2)
        brief = unittest.mock.patch.object(steps, "BRIEF", 0)  # all steps have all of their parts timed
        brief.start()
        self.addCleanup(brief.stop)
        self.begun = time.monotonic_ns()

    def train(self, step, batches=5):
        """A loop of so many steps; the parts of it that are on record, by step."""
        for x in DataLoader(torch.ones(2 * batches, 4), batch_size=2):
            step(x)
        mine = [s for s in harness.spans() if s["start"] > self.begun]
        bodies = {s["step"]: s for s in mine if s["kind"] == ring.BODY and s["step"] >= 0}
        self.assertEqual(len(bodies), batches)
        out = {n: [] for n in bodies}
        at = 0
        for s in sorted((s for s in mine if s["kind"] in (ring.BACKWARD, ring.OPTIMIZER)), key=lambda s: s["start"]):
            body = bodies[s["step"]]
            self.assertTrue(max(at, body["start"]) <= s["start"] < s["end"] <= body["end"], s)
            at = s["end"]
            out[s["step"]].append((s["kind"], s["end"] - s["start"]))
        return list(out.values())

    def loss(self, x):
        return self.model(x).square().mean()

    def kinds(self, steps):
        return [[kind for kind, _ in step if HAS_HOOKS or kind == ring.BACKWARD] for step in steps]

    def want(self, *kinds):
        return [[kind for kind in kinds if HAS_HOOKS or kind == ring.BACKWARD]]

    def test_signals_are_not_lost(self):
        """What a signal's handler raises reaches the script, also where it came during a backward pass."""
        import signal

        def handler(*_):
            raise KeyboardInterrupt

        self.addCleanup(signal.signal, signal.SIGALRM, signal.signal(signal.SIGALRM, handler))
        x = torch.randn(500, 500, requires_grad=True)
        came = 0
        for _ in DataLoader(range(5)):
            y = x
            for _ in range(8):
                y = y @ x
            y = y.sum()
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.005)
                y.backward()
                time.sleep(1)  # where the pass was over first
            except KeyboardInterrupt:
                came += 1
        self.assertEqual(came, 5)

    def test_alarms(self):
        """So does an error that a handler raises while a batch is taken, and the loader stays watched."""
        import signal

        came = caught = 0

        def handler(*_):
            nonlocal came
            came += 1
            raise TimeoutError("late")

        self.addCleanup(signal.signal, signal.SIGALRM, signal.signal(signal.SIGALRM, handler))
        self.addCleanup(harness.forget)
        loader, model = DataLoader(range(4000)), torch.nn.Linear(1, 1)
        with unittest.mock.patch.object(sys, "unraisablehook") as lost:  # some may come while an object is let go
            while came < 400:
                if came % 10 == 0:  # as at the first batch
                    process.current().introduced = 0
                    parts.here.__dict__.pop("loop", None)
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0.0005 + came % 7 * 0.0001)
                    for _ in loader:
                        model(torch.ones(1, 1)).sum().backward()
                except TimeoutError:
                    caught += 1
            signal.setitimer(signal.ITIMER_REAL, 0)
        self.assertEqual(came - caught, sum(call.args[0].exc_type is TimeoutError for call in lost.call_args_list))
        self.assertGreater(caught, 200)
        before = time.monotonic_ns()
        self.assertEqual(len(list(loader)), 4000)
        self.assertEqual(len([s for s in harness.spans(ring.END) if s["start"] > before]), 1)

    def test_batches_that_are_kept(self):
        """Passes between loops are in no step, which is said once; a few are nothing to speak of."""
        kept = list(DataLoader(torch.ones(10, 4), batch_size=2, shuffle=True))
        for count, told in ((parts.APART - 1, 0), (1, 1), (parts.APART, 1)):
            for _ in range(count):
                self.loss(kept[0]).backward()
            notes = [m["text"] for m in harness.messages("note") if m["t"] > self.begun]
            self.assertEqual(len([n for n in notes if "learns from batches that it does not take" in n]), told)

    def test_passes_that_learn_nothing(self):
        """They are no steps, whether before the script has learned anything or later. The first step of an epoch has its wait."""
        loops = unittest.mock.patch.object(process.current(), "loops", [])  # without those of other tests' threads
        loops.start()
        self.addCleanup(loops.stop)
        parts.here.__dict__.clear()
        loader = DataLoader(torch.ones(10, 4), batch_size=2, shuffle=True)
        list(loader)
        first = process.current().steps
        for _ in range(2):
            for x in loader:
                self.loss(x).backward()
            self.assertEqual(len(list(loader)), 5)
        self.assertEqual([m["step"] for m in harness.messages("learns") if m["t"] > self.begun], [first])
        nexts = [s for s in harness.spans(ring.NEXT) if s["start"] > self.begun]
        self.assertEqual([s["step"] for s in nexts if s["step"] >= first], list(range(first, first + 10)))
        self.assertEqual(len([s for s in nexts if s["flags"] & ring.TRAIN]), 15)
        self.assertTrue(all(s["end"] > s["start"] for s in nexts))

    def test_a_plain_loop(self):
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

        def step(x):
            optimizer.zero_grad()
            self.loss(x).backward()
            self.loss(x).backward()  # accumulated
            optimizer.step()

        self.assertEqual(self.kinds(self.train(step)), 5 * self.want(ring.BACKWARD, ring.BACKWARD, ring.OPTIMIZER))

    def test_short_steps(self):
        """Of short steps some have their parts timed, not always those of one place in a cycle. They stand for all."""
        optimizer, turn = torch.optim.SGD(self.model.parameters(), lr=0.1), 0

        def step(x):
            nonlocal turn
            turn += 1
            self.loss(x).backward()
            if turn % 4 == 0:
                optimizer.step()

        with unittest.mock.patch.object(steps, "BRIEF", 10**12):
            got = self.train(step, 8000)
        stand = {ring.BACKWARD: 0, ring.OPTIMIZER: 0}
        for s in harness.spans():
            if s["start"] > self.begun and s["kind"] in stand:
                stand[s["kind"]] += s["arg"]
        self.assertLess(len([kinds for kinds in got if kinds]), 1000)
        self.assertTrue(6000 < stand[ring.BACKWARD] < 10000, stand)
        if HAS_HOOKS:
            self.assertTrue(1400 < stand[ring.OPTIMIZER] < 2600, stand)

    def test_grad_is_a_backward_pass(self):
        self.assertEqual(self.kinds(self.train(lambda x: torch.autograd.grad(self.loss(x), self.model.parameters()))), 5 * self.want(ring.BACKWARD))

    def test_a_closure_is_not_the_optimizers(self):
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

        awake = []

        def closure():
            time.sleep(0.02)
            awake[-1] -= time.monotonic_ns()
            loss = self.loss(torch.ones(2, 4))
            loss.backward()
            return loss

        def step(x):
            awake.append(0)
            optimizer.step(closure)
            awake[-1] += time.monotonic_ns()

        steps = self.train(step)
        self.assertEqual(self.kinds(steps), 5 * self.want(ring.BACKWARD, ring.OPTIMIZER))
        for parts_of, most in zip(steps, awake):
            self.assertLessEqual(sum(ns for _, ns in parts_of), most)

    def test_failures_are_as_they_were(self):
        def fails():
            try:
                Failing.apply(self.loss(torch.ones(2, 4))).backward()
            except KeyError:
                return traceback.format_exc()

        class Broken(torch.optim.SGD):
            def step(self, closure=None):
                raise ValueError("as planned")

        broken, optimizer = (kind(self.model.parameters(), lr=0.1) for kind in (Broken, torch.optim.SGD))

        def step(x):
            self.assertNotIn("gpustall", fails() or "")
            with self.assertRaises(ValueError):
                broken.step()
            optimizer.step()

        self.assertEqual(self.kinds(self.train(step)), 5 * self.want(ring.BACKWARD, ring.OPTIMIZER))

    def test_an_optimizer_within_the_backward_pass(self):
        if not hasattr(torch.Tensor, "register_post_accumulate_grad_hook"):
            self.skipTest("this PyTorch has no such hook")
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.model.bias.register_post_accumulate_grad_hook(lambda _: optimizer.step())
        self.assertEqual(self.kinds(self.train(lambda x: self.loss(x).backward())), 5 * self.want(ring.BACKWARD, ring.OPTIMIZER, ring.BACKWARD))

    def test_nothing_is_replaced(self):
        self.train(lambda x: self.loss(x).backward())
        for f in (torch.autograd.backward, torch.Tensor.backward, torch.autograd.grad):
            self.assertIs(pickle.loads(pickle.dumps(f)), f)
            self.assertNotIn("gpustall", f.__code__.co_filename)
        self.assertTrue(torch.autograd.Variable._execution_engine.is_checkpoint_valid())
        self.loss(torch.ones(2, 4)).backward()  # outside of any loop

    def test_compiled(self):
        if subprocess.run([sys.executable, "-c", "import torch; torch.compile(lambda x: x, backend='eager')(torch.ones(1))"], capture_output=True).returncode:
            self.skipTest("this PyTorch does not compile for this Python")
        env = {k: v for k, v in os.environ.items() if k != "GPUSTALL_TORCH"}
        here = os.path.dirname(os.path.abspath(__file__))
        done = {}
        for how in "bare", "loader", "optimizer":
            run = subprocess.run([sys.executable, "-W", "ignore", "-c", COMPILED, how], cwd=here, env=env, capture_output=True, text=True)
            self.assertEqual(run.returncode, 0, run.stderr)
            done[how] = json.loads(run.stdout)
        for how in "loader", "optimizer":
            self.assertEqual(done[how][::2], done["bare"][::2])
            # From Python 3.13 on there is one break less around the step: PyTorch then compiles by parts a step
            # that anybody has a global hook on.
            more = {reason: n for reason, n in done[how][1].items() if n > done["bare"][1].get(reason, 0)}
            self.assertEqual(more, {}, how)


if __name__ == "__main__":
    unittest.main()
