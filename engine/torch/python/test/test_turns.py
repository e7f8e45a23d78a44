"""Several loaders in one script: those that are taken from in turn make one step of a pass, and
what the script changes by itself is told apart from what was asked for."""

import time
import unittest
import unittest.mock
from typing import Any

import harness
import torch
from torch.utils.data import DataLoader, Dataset

from gpustall import loaders, loops, manual, parts, process, ring

LEARNS, LOOKS, NO_GRAD = range(3)  # what an epoch does with its batches


def ones(i):
    return torch.ones(4)


class Numbers(Dataset):
    def __init__(self, n, make=ones):
        self.n, self.make = n, make

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return self.make(i)


class Slow:
    """A batch sampler that draws as a generator does."""

    def __init__(self, draws):
        self.draws = draws

    def __len__(self):
        return 8

    def __iter__(self):
        return self.draws(len(self))


class Costly:
    """What takes its time to be pickled: on a core, or asleep."""

    def __init__(self, busy):
        self.busy = busy

    def __reduce__(self):
        end = time.thread_time() + 0.02
        while self.busy and time.thread_time() < end:
            pass
        if not self.busy:
            time.sleep(0.02)
        return Costly, (self.busy,)


def busy(i):
    return Costly(True)


def asleep(i):
    return Costly(False)


class TurnsTest(unittest.TestCase):
    def setUp(self):
        torch.set_num_threads(1)
        harness.ask_nothing()
        harness.forget()
        self.model = torch.nn.Linear(4, 2)
        self.begun = time.monotonic_ns()

    def tearDown(self):
        harness.ask_nothing()

    def spans(self, *kinds):
        return sorted((s for s in harness.spans() if s["start"] > self.begun and s["kind"] in kinds), key=lambda s: s["start"])

    def told(self, kind):
        return [m for m in harness.messages(kind) if m["t"] > self.begun]

    def learn(self, *batches):
        loss: Any = sum(self.model(x).square().mean() for x in batches)
        loss.backward()

    def test_sampler(self):
        """What the sampler takes for the indices of a batch is recorded, with workers and without; quick draws are not."""

        def slow(n):
            for i in range(n):
                time.sleep(0.01)
                yield [2 * i, 2 * i + 1]

        for workers in 0, 1:
            for persistent in {False, workers > 0}:
                self.begun = time.monotonic_ns()
                loader = DataLoader(Numbers(16), batch_sampler=Slow(slow), num_workers=workers, persistent_workers=persistent)
                for _ in range(2):
                    for x in loader:
                        self.learn(x)
                drawn = self.spans(ring.SAMPLER)
                took = [s["end"] - s["start"] for s in drawn]
                self.assertIn(len(took), range(16, 19), (workers, persistent))  # perhaps with the draws that find nothing left
                self.assertGreaterEqual(sorted(took)[-16], 9_000_000)
                waits = self.spans(ring.NEXT, ring.ITER, ring.END)
                for s in drawn:
                    self.assertTrue(any(w["start"] <= s["start"] and s["end"] <= w["end"] for w in waits), (workers, s, waits))
        self.begun = time.monotonic_ns()
        for x in DataLoader(Numbers(16), batch_size=2):
            self.learn(x)
        self.assertLess(len(self.spans(ring.SAMPLER)), 8)

    def test_sent(self):
        """How much is sent to each worker is told, where it is much and they are not forked."""
        for method, held, most in ("forkserver", 3 << 20, 4 << 20), ("spawn", 3 << 20, 4 << 20), ("fork", 3 << 20, 0), ("forkserver", 1 << 10, 0):
            harness.forget()
            self.begun = time.monotonic_ns()
            data = Numbers(8)
            data.held = b"x" * held
            for x in DataLoader(data, batch_size=4, num_workers=2, multiprocessing_context=method):
                self.learn(x)
            (sent,) = {m["sent"] for m in self.told("loader")}
            self.assertLessEqual(held if most else 0, sent, (method, held))
            self.assertLessEqual(sent, most, (method, held))

    def test_sampler_fails(self):
        """An exception of the sampler's reaches the script."""

        def fails(n):
            yield [0, 1]
            raise KeyError("mine")

        for workers in 0, 1:
            with self.assertRaises(KeyError):
                for x in DataLoader(Numbers(16), batch_sampler=Slow(fails), num_workers=workers):
                    self.learn(x)

    def steps(self, loop):
        """How many batches each step of a loop has."""
        loop()
        batches = {}
        for s in self.spans(ring.NEXT):
            batches.setdefault(s["step"], []).append(s["iteration"])
        finals = [s["step"] for s in self.spans(ring.BODY) if s["flags"] & ring.FINAL]
        self.assertEqual(sorted(finals), sorted(batches))
        return [len(batches[n]) for n in sorted(batches)]

    def loaders(self, *sizes):
        return [DataLoader(Numbers(n), batch_size=2) for n in sizes]

    def test_zip(self):
        a, b, c = self.loaders(8, 8, 10)

        def loop():
            for _ in range(2):
                for batches in zip(a, b, c):
                    self.learn(*batches)

        self.assertEqual(self.steps(loop), 8 * [3])
        said = [m["text"] for m in self.told("note")]
        self.assertEqual(said, 2 * ["the loop takes from another DataLoader in turn, over Numbers with num_workers=0"])

    def test_a_second_one_within_the_loop(self):
        """Which begins anew when it ends."""
        a, b = self.loaders(12, 6)

        def loop():
            it = iter(b)
            for x in a:
                try:
                    y = next(it)
                except StopIteration:
                    it = iter(b)
                    y = next(it)
                self.learn(x, y)

        self.assertEqual(self.steps(loop), 6 * [2])

    def test_learning_makes_a_step(self):
        a, b = self.loaders(6, 6)

        def loop():
            it = iter(b)
            for x in a:
                self.learn(x)
                self.learn(next(it))

        self.assertEqual(self.steps(loop), 6 * [1])

    def test_a_loop_within_a_step(self):
        a, b = self.loaders(4, 6)

        def loop():
            for x in a:
                for y in b:
                    self.learn(x, y)

        self.assertEqual(self.steps(loop), 8 * [1])

    def test_an_evaluation_within_a_step(self):
        """It is no part of the step, however the script leaves it, also where the script keeps its iterator."""
        kept = []

        def left(v):
            for i, x in enumerate(v):
                if i == 3:
                    break
                yield x

        def keeps(v):
            kept[:] = [iter(v)]
            for _ in range(3):
                yield next(kept[0])

        def one_each(v):
            return (next(iter(v)) for _ in range(3))

        for ways, grad, looks in (("begins and ends", "no_grad", left), ("begins and ends", "no_grad", keeps), ("ends", "no_grad", one_each),
                                  ("begins", "no_grad", one_each), ("begins", "inference_mode", left), ("begins and ends", "enable_grad", left),
                                  ("begins", "enable_grad", keeps)):
            for shuffle in (False, True):
                harness.forget()
                self.begun = time.monotonic_ns()
                a, v = DataLoader(Numbers(16), batch_size=2, shuffle=True), DataLoader(Numbers(8), batch_size=2, shuffle=shuffle)

                def evaluate(n, looks=looks, grad=grad, v=v):
                    if n % 4 == 2:
                        with getattr(torch, grad)():
                            for _ in looks(v):
                                time.sleep(0.02)

                for n, x in enumerate(a):
                    if "begins" in ways:
                        evaluate(n)
                    self.learn(x)
                    if "ends" in ways:
                        evaluate(n)
                with self.subTest((ways, grad, looks.__name__, shuffle)):
                    self.assertEqual(len({s["step"] for s in self.spans(ring.NEXT, ring.BODY, ring.BACKWARD)} - {-1}), 8)
                    trained, beside = (sum(s["end"] - s["start"] for s in self.spans(ring.BODY) if bool(s["flags"] & ring.TRAIN) == t) for t in (True, False))
                    self.assertLess(trained, beside / 2)

    def test_a_batch_of_another_loader_in_each_step(self):
        """Which the step takes by next(iter(loader)), and learns from."""
        a, b = DataLoader(Numbers(12), batch_size=2), DataLoader(Numbers(8), batch_size=2, shuffle=True)

        def loop():
            for x in a:
                self.learn(x)

        loop()
        self.begun = time.monotonic_ns()
        self.assertEqual(self.steps(lambda: [self.learn(x, next(iter(b))) for x in a]), 6 * [2])

    def test_an_evaluation_on_the_same_data(self):
        """Another loader over it, with other workers, is no change of the settings."""
        data = Numbers(8)
        for within in (False, True):
            harness.forget()
            self.begun = time.monotonic_ns()
            a, v = (DataLoader(data, batch_size=2, shuffle=True, num_workers=n) for n in (0, 1))
            for _ in range(2):
                for x in a:
                    self.learn(x)
                    if within:
                        with torch.no_grad():
                            next(iter(v))
                with torch.no_grad():
                    list(v)
            self.assertEqual([m["type"] for m in self.told(None) if m["type"] in ("applied", "moved", "anew")], [])
            self.assertEqual(len({s["step"] for s in self.spans(ring.NEXT)} - {-1}), 8)
            for x in v:
                self.learn(x)
            self.assertEqual([m["knobs"]["num_workers"] for m in self.told("applied")], [1])

    def test_what_trains(self):
        """A loader that trains may be gone through to evaluate, and others before anything is learned."""
        a, b, v, s = 0, 1, 2, 3

        for name, epochs, steps in (
            ("an evaluation first", [(a, NO_GRAD), (a, LEARNS), (a, LEARNS)], [4, 4]),
            ("one after each epoch", 2 * [(a, LEARNS), (a, NO_GRAD)], [4, 4]),
            ("one with gradients on", 2 * [(a, LEARNS), (a, LOOKS)], [4, 4]),
            ("a look at the data after a first phase", [(a, LEARNS), (b, LOOKS), (b, LEARNS), (b, LEARNS)], [4, 3, 3]),  # b's first step shows that it trains
            ("a validation with gradients on", 3 * [(a, LEARNS), (v, LOOKS)], [4, 4, 4]),
            ("one that is shuffled", 3 * [(a, LEARNS), (s, LOOKS)], [4, 4, 4]),
            ("one before anything was learned", [(v, LOOKS)] + 3 * [(a, LEARNS), (v, LOOKS)], [2, 4, 4, 4]),  # the first two are taken back
        ):
            harness.forget()
            self.begun = time.monotonic_ns()
            loaders = self.loaders(8, 6, 4) + [DataLoader(Numbers(4), batch_size=2, shuffle=True)]
            for which, how in epochs:
                with torch.set_grad_enabled(how != NO_GRAD):
                    for x in loaders[which]:
                        (self.learn if how == LEARNS else len)(x)
            came = self.spans(ring.NEXT)
            with self.subTest(name):
                self.assertTrue(all((s["step"] >= 0) == bool(s["flags"] & ring.TRAIN) for s in came + self.spans(ring.BODY)))
                came = [s for s in came if s["step"] >= 0]
                at = [i for i, s in enumerate(came) if s["flags"] & ring.FIRST] + [len(came)]
                self.assertEqual([j - i for i, j in zip(at, at[1:])], steps)

    def test_a_batch_taken_ahead(self):
        """A loop that takes each batch before it learns from the one before, as timm's does, has as many steps as batches, once
        an epoch has shown it."""
        (a,) = self.loaders(8)

        def loop():
            it = iter(a)
            x = next(it)
            for following in it:
                self.learn(x)
                x = following
            self.learn(x)

        loop()
        loop()
        self.begun = time.monotonic_ns()
        loop()
        self.assertEqual(sum(s["step"] >= 0 for s in self.spans(ring.NEXT)), 4)

    def test_what_beginning_takes(self):
        """Of an iterable that is watched the first wait is from when it is asked for its iterator on."""

        class Late:
            def __iter__(self):
                time.sleep(0.05)
                return iter([torch.ones(2, 4)])

        for _ in manual.watch(Late()):
            pass
        (came,) = self.spans(ring.NEXT)
        self.assertGreater((came["end"] - came["start"]) / 1e9, 0.045)

    def test_watch_and_step_beside_loaders(self):
        """A batch of a loader's is one step, whatever else is called in it, and the loop goes on with others."""
        loader = DataLoader(Numbers(10), batch_size=2, shuffle=True)
        kept = []
        loops = (
            ("within", lambda: [manual.step(2) for x in loader if self.learn(x) is None], 5),
            ("of a loader", lambda: [self.learn(x) for x in manual.watch(loader)], 5),
            ("around a loader", lambda: [self.learn(x) for x in manual.watch(map(torch.clone, loader))], 5),
            ("kept", lambda: [self.learn(x) for x in manual.watch(kept)], 5),
            ("a loader again", lambda: [self.learn(x) for x in loader], 5),
            ("after each", lambda: [manual.step(2) for x in kept if self.learn(x) is None], 5),
            ("and a loader", lambda: [self.learn(x) for x in loader], 5),
        )
        self.addCleanup(parts.here.__dict__.clear)  # the step that the last call of step began
        self.addCleanup(manual._stepped.__dict__.clear)
        kept += loader
        for name, loop, steps in loops:
            before = len([s for s in self.spans(ring.NEXT) if s["step"] >= 0])
            loop()
            with self.subTest(name):
                self.assertEqual(len([s for s in self.spans(ring.NEXT) if s["step"] >= 0]) - before, steps)
        self.assertEqual([m["dataset"] for m in self.told("moved")], ["list", "Numbers", "gpustall.step", "Numbers"])
        self.assertEqual([m["text"] for m in self.told("note") if "no more" in m["text"]], [])

    def test_what_step_alone_tells(self):
        """Without data(), only backward passes and optimizers of a step of gpustall.step are known to be computation.
        With it, the rest is computation too."""
        self.addCleanup(parts.here.__dict__.clear)
        self.addCleanup(manual._stepped.__dict__.clear)

        def times(kind, steps):
            return sum(s["end"] - s["start"] for s in self.spans(kind) if s["step"] in steps) / 1e9

        manual.step(2)
        begun, slept = time.monotonic(), 0.0
        for _ in range(2):
            asleep = time.monotonic()
            time.sleep(0.05)
            slept += time.monotonic() - asleep
            self.learn(torch.ones(2, 4))
            manual.step(2)
        awake = time.monotonic() - begun - slept
        first = {s["step"] for s in self.spans(ring.BODY)}
        self.assertEqual(len(first), 2)
        self.assertLess(times(ring.BODY, first), awake)
        self.assertGreater(times(ring.BODY, first), 0)
        self.assertEqual(len([m for m in self.told("note") if m["text"] == manual.ALONE]), 1)
        for _ in range(3):
            with manual.Data(), manual.Data():
                time.sleep(0.05)
                list(DataLoader(Numbers(4), batch_size=2))
            time.sleep(0.02)
            manual.step(2)
        later = {s["step"] for s in self.spans(ring.BODY)} - first
        self.assertEqual(len(later), 3)
        self.assertGreater(times(ring.NEXT, later), 0.15)
        self.assertGreater(times(ring.BODY, later), 0.06)

    def test_data_on_a_device(self):
        """The device's part of a step ends where data() begins, and goes on behind it as the same step."""
        self.addCleanup(parts.here.__dict__.clear)
        self.addCleanup(manual._stepped.__dict__.clear)
        manual.step(2)
        manual.step(2)
        loop: Any = loops.current()
        step = loop.open[-1][1]
        loop.device = unittest.mock.Mock()
        with manual.Data():
            pass
        loop.device.ends.assert_called_once_with(step, goes_on=True)
        loop.device.begins.assert_called_once_with(step)

    def begin_again(self):
        for known in (parts.here, manual._stepped):
            known.__dict__.clear()

    def test_an_optimizer_shows_the_steps(self):
        """A step lasts from one step of the optimizer to its next. Passes between, and other optimizers, are in it. What is
        neither in a backward pass nor in an optimizer is not known to be computation."""
        def sgd():
            return torch.optim.SGD(self.model.parameters(), lr=0.0)

        first, second, many = sgd(), sgd(), [sgd() for _ in range(20)]
        x = torch.ones(2, 4)

        def plain():
            self.learn(x)
            first.step()

        def accumulated():
            self.learn(x)
            self.learn(x)
            first.step()

        def two():
            for optimizer in (first, second):
                self.learn(x)
                optimizer.step()

        def critic_twice():
            for optimizer in (first, first, second):
                self.learn(x)
                optimizer.step()

        def each_its_own():
            self.learn(x)
            for optimizer in many:
                optimizer.step()

        def by_itself():
            self.learn(x)
            first.step()
            manual.step(2)

        def within_a_loader():
            for _ in DataLoader(Numbers(2), batch_size=2, shuffle=True):
                plain()

        self.addCleanup(self.begin_again)
        brief = unittest.mock.patch("gpustall.steps.BRIEF", 0)  # all steps have all of their parts timed
        brief.start()
        self.addCleanup(brief.stop)
        for step, count, size in (
            (plain, 7, 2), (accumulated, 7, 4), (two, 7, 4), (critic_twice, 7, 6), (each_its_own, 7, 2), (by_itself, 9, 0), (within_a_loader, 10, 0),
        ):
            self.begin_again()
            harness.forget()
            self.begun = time.monotonic_ns()
            state = process.current()
            before = state.steps, state.samples
            for _ in range(10):
                step()
            ended = [s for s in self.spans(ring.BODY) if s["flags"] & ring.FINAL]
            with self.subTest(step.__name__):
                self.assertEqual(len(ended), count)
                self.assertEqual(len({s["step"] for s in ended}), count)
                self.assertEqual([m["text"] for m in self.told("note") if m["text"] != manual.ALONE], [])
                if step not in (by_itself, within_a_loader):
                    self.assertEqual((state.steps - before[0], state.samples - before[1]), (10, 10 * size))
                    self.assertEqual([(m["kind"], m["alone"]) for m in self.told("loader")], [("optimizer", True)])
                    self.assertEqual(sum(s["end"] - s["start"] for s in ended), 0)

    def test_no_hook_stays(self):
        """Not where an optimizer stepped once before the loop over a DataLoader, nor once the samples are known."""
        from torch.nn.modules import module

        self.addCleanup(self.begin_again)
        self.begin_again()
        optimizer, hooks = torch.optim.SGD(self.model.parameters(), lr=0.0), len(module._global_forward_hooks)
        optimizer.step()
        self.assertEqual(len(module._global_forward_hooks), hooks + 1)
        with unittest.mock.patch.object(manual._stepped.shapes, "left", 5):
            for x in DataLoader(Numbers(20), batch_size=2, shuffle=True):
                self.learn(x)
                optimizer.step()
        self.assertEqual(len(module._global_forward_hooks), hooks)
        self.begin_again()
        for _ in range(4):
            optimizer.step()
        self.assertEqual(len(module._global_forward_hooks), hooks)

    def test_backward_passes_show_the_steps(self):
        """So it is where the script updates its weights itself. An optimizer that comes later shows them from then on."""
        self.addCleanup(self.begin_again)
        self.begin_again()
        state, optimizer = process.current(), torch.optim.SGD(self.model.parameters(), lr=0.0)
        self.assertTrue(manual._has_optimizer())
        for made, passes, steps, want in (True, 40, 0, 0), (False, manual.OFTEN - 1, 0, 0), (False, manual.OFTEN + 5, 0, 6), (False, 24, 5, 6 + 3):
            before = len([s for s in self.spans(ring.NEXT) if s["step"] >= 0])
            with unittest.mock.patch.object(state, "shown", None), unittest.mock.patch.object(manual, "_has_optimizer", return_value=made) as has:
                for _ in range(passes):
                    self.learn(torch.ones(2, 4))
                has.return_value = True
                for _ in range(steps):
                    self.learn(torch.ones(2, 4))
                    optimizer.step()
            got = [s for s in self.spans(ring.NEXT) if s["step"] >= 0][before:]
            self.assertEqual(len(got), want, (made, passes, steps))
            self.begin_again()

    def test_an_optimizer_beside_a_loader(self):
        """Few steps between loops over a DataLoader are none of their own; many are, and so are those of an optimizer that comes later."""
        self.addCleanup(self.begin_again)
        self.begin_again()
        loader, kept = DataLoader(Numbers(4), batch_size=2, shuffle=True), torch.ones(2, 4)
        optimizers = [torch.optim.SGD(self.model.parameters(), lr=0.0) for _ in range(2)]

        def steps(count, optimizer):
            before = len([s for s in self.spans(ring.NEXT) if s["step"] >= 0])
            for x in [kept] * count if count else loader:
                self.learn(x)
                optimizers[optimizer].step()
            return len([s for s in self.spans(ring.NEXT) if s["step"] >= 0]) - before

        for count, optimizer, want in (
            (0, 0, 2), (manual.OFTEN - 1, 0, 0), (0, 0, 2), (manual.OFTEN + 4, 0, 5), (0, 0, 2),
            (manual.OFTEN + manual.INSTEAD + 4, 1, 6), (0, 0, 2),
        ):
            self.assertEqual(steps(count, optimizer), want, (count, optimizer))
        self.assertEqual([m["dataset"] for m in self.told("moved")], ["no DataLoader", "Numbers"] * 2)

    def test_an_optimizer_on_one_batch(self):
        """Each step counts where the script learns from one batch again and again, or from some that it keeps; a batch's own step
        has the first."""
        self.addCleanup(self.begin_again)
        for held, taken, count, want in (
            (False, 1, parts.APART, 1), (False, 1, 100, 100), (True, 1, 100, 1), (True, 1, parts.LONG * parts.APART + 50, 250),
            (True, 5, 2 * parts.MORE, 1), (True, 5, 100, 100), (True, 9, 100, 100),
        ):
            self.begin_again()
            iterator = iter(DataLoader(Numbers(40), batch_size=4, shuffle=True))
            optimizer = torch.optim.SGD(self.model.parameters(), lr=0.0)
            for _ in range(taken):
                before, x = len(self.spans(ring.NEXT)), next(iterator)
            if not held:
                del iterator
            for _ in range(count):
                self.learn(x)
                optimizer.step()
            steps = [s["step"] for s in self.spans(ring.NEXT)[before:] if s["step"] >= 0]
            self.assertEqual(steps[-1] - steps[0] + 1, want, (held, taken, count))
            if want > 1:  # the first of them has a backward pass
                body, backward = (next(s for s in self.spans(kind) if s["step"] == steps[0]) for kind in (ring.BODY, ring.BACKWARD))
                self.assertLessEqual(body["start"], backward["start"])
                self.assertLessEqual(backward["end"], body["end"])

    def untried(self):
        """Workers are there at the next batch: none is tried first."""
        for name, answer in ("proven", True), ("probing", False):
            patch = unittest.mock.patch.object(loaders.Plan, name, lambda *_, answer=answer: answer)
            patch.start()
            self.addCleanup(patch.stop)

    def applied(self):
        return [(m["type"], m["script"], m["knobs"]["num_workers"]) for m in self.told("applied") + self.told("moved")]

    def run_with(self, *loaders, ask=None):
        for loader in loaders:
            for i, x in enumerate(loader):
                if i == 1 and ask:
                    harness.ask(num_workers=ask)
                self.learn(x)

    def test_what_the_script_changes(self):
        data = Numbers(8)
        self.run_with(*(DataLoader(data, batch_size=2, num_workers=n) for n in (0, 0, 1)))
        self.assertEqual(self.applied(), [("applied", True, 1)])
        self.run_with(DataLoader(Numbers(6), batch_size=2, num_workers=2))
        self.assertEqual(self.applied()[1:], [("moved", True, 2)])

    def test_what_was_asked_for(self):
        self.untried()
        data = Numbers(8)
        self.run_with(DataLoader(data, batch_size=2), ask=2)
        self.assertEqual(self.applied(), [("applied", False, 2)])
        self.run_with(*(DataLoader(data, batch_size=2, num_workers=n) for n in (0, 1)))
        self.assertEqual(len(self.applied()), 1)  # what was asked for stays in force

    def test_loaders_made_anew(self):
        """What was asked for is in force from the first batch on in those that follow, and it is told
        that nothing persists from one to the next."""
        self.untried()
        for epoch in range(3):
            self.run_with(DataLoader(Numbers(8), batch_size=2), ask=2 if epoch == 0 else None)
        self.assertEqual(self.applied(), [("applied", False, 2)])
        self.assertEqual(len(self.told("anew")), 1)

    def test_loaders_that_live_on(self):
        train, other = DataLoader(Numbers(8), batch_size=2), DataLoader(Numbers(8), batch_size=2)
        self.run_with(train, other, train, other)
        self.assertEqual(self.told("anew"), [])

    def test_in_turn_the_first_one_counts(self):
        self.untried()
        a, b = DataLoader(Numbers(8), batch_size=2), DataLoader(Numbers(8), batch_size=2, num_workers=1, persistent_workers=False)
        for i, batches in enumerate(zip(a, b)):
            if i == 1:
                harness.ask(num_workers=2)
            self.learn(*batches)
        self.assertEqual(self.applied(), [("applied", False, 2)])

    def test_what_sending_takes(self):
        """A batch that takes 20 ms to be pickled, and is waited for meanwhile."""
        for make, least, most in ((busy, 0.018, 0.5), (asleep, 0, 0.01)):
            self.begun = time.monotonic_ns()
            for _ in DataLoader(Numbers(6, make), batch_size=None, num_workers=1):
                pass
            sent = self.spans(ring.SENT)
            came = {s["batch"]: s["end"] for s in self.spans(ring.NEXT)}
            self.assertEqual([s["batch"] for s in sent], list(range(6)))
            for s in sent:
                took = (s["end"] - s["start"]) / 1e9
                self.assertGreater(took, 0.018)
                self.assertLessEqual(s["end"], came[s["batch"]])
                self.assertGreaterEqual(s["core"] / 1e9, least)
                self.assertGreaterEqual(s["waiting"], 0)
            self.assertLess(sorted(s["core"] for s in sent)[3] / 1e9, most)  # the first one begins the thread, too


if __name__ == "__main__":
    unittest.main()
