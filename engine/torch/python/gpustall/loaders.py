"""Plans for DataLoaders: their knobs, whether they train, and their iterators."""

import functools
import multiprocessing
import resource
import threading
import types
import weakref
from typing import Any

from gpustall import batches, control, fetching, given, hook, loops, parts, process, ring, starting, steps, worker
from gpustall.usage import BRIEF

now = process.now

pytorch: Any = None  # torch.utils.data.dataloader
why_not_live = ""  # why no loader's knobs can be changed while it runs; empty where they can
drawing = set()  # classes of iterators with a _next_index of their own, which is timed
timed_draws: Any = None  # times a _next_index
plain_init = {}  # PyTorch's own __init__ of its iterators, by class
plans = weakref.WeakKeyDictionary()  # by DataLoader

# A script may make a loader for each epoch. What is learned about one loader holds for all that look alike,
# by Plan.alike, or for their kin, by Plan.kin.
_roles = {}  # by alike: whether they train
_learners = set()  # alike: something was learned with their batches
_ahead = set()  # alike: the script takes a batch, and then learns from the one before
_seen = False  # it is seen when the script learns: a loader's epoch ended with such a step, or optimizers alone showed steps
_trained = {}  # by kin: a weak reference to the last loader that trained
_in_force = {}  # by alike: the knobs in force
_at_most = {}  # by alike, or by kin where workers failed: how many can begin, and the Refused for more
_proven = set()  # kin, and how many workers their script has: more workers can begin with what is loaded live
_probes = {}  # by alike and by kin, with the script's workers: the starting.Probe, trial.Trial or trial.Beside that shows whether workers can begin


class Plan:
    """What is known of one DataLoader, and the knobs that it should have."""

    certain = False  # the script itself says that its batches are steps

    def __init__(self, loader):
        dataset, module = loader.dataset, pytorch
        stock = isinstance(loader, module.DataLoader)  # otherwise the loader has only what an iterator asks for
        pipes = tuple(p for p in (getattr(module, "IterDataPipe", None), getattr(module, "MapDataPipe", None)) if p)
        pipe = isinstance(dataset, pipes)
        if pipe:
            dataset = getattr(dataset, "_datapipe", dataset)  # the loader wrapped the script's
        self.name = given.dataset(loader)
        sampler = getattr(loader, "sampler", None)
        self.alike = (self.name, id(dataset), type(sampler).__name__, _count(sampler), *given.sampling(loader)[:2])
        self.trains = _roles.get(self.alike)  # None while not known
        try:
            self.samples = len(given.behind(loader).dataset)
        except Exception as error:
            hook.pass_on(error)
            self.samples = 0
        self.kin = self.name, self.samples, *self.alike[2:]  # the same for a data set that is made anew in each epoch
        self.loader = weakref.ref(loader)
        self.beside = False  # the loop takes from it and another loader in turn
        self.told = self.weighed = self.own = self.sent = False
        self.fixed = False  # its iterators are of a class of its own: its knobs stay
        self.map_style = loader._dataset_kind == module._DatasetKind.Map
        self.why = why_not_live
        if not self.why and _threads(loader):
            self.why = "its workers are threads of the script's own process"
        self.live = self.map_style and not self.why and not pipe
        self.apart = False  # its class makes PyTorch's iterators in its own way
        self.making = False  # PyTorch makes an iterator just now
        self.took_to_make = 0  # ns, for the last one
        self.begun, self.last = 0, None  # how many epochs; a weak reference to the last one's iterator
        self.applied = None  # the knobs of the last iterator that PyTorch made
        self.least = steps.NEVER  # the shortest time, in ns, that a loop within another one's step spent with a batch
        self.untold = None  # the knobs in force while the session shows another loader that looks alike
        self.has_in_order = hasattr(loader, "in_order")
        self.collates = loader._auto_collation or not stock
        self.script = self.of_script(loader)
        self.barred = None  # how many workers can begin, and why not more, where that is known in advance
        self.nothing = None  # knobs with which an iterator could not be made
        self.waits = False  # its knobs can be changed live from the next epoch on, because PyTorch's own iterator is under way
        self.marks = None  # of what workers have that persist because of gpustall
        self.failed = None  # a queue by which workers beyond the script's tell why they had no batch
        self.about = self._describe(loader)

    def keeps_own(self):
        """Notes that the loader has its own iterators, whose knobs cannot be changed."""
        self.own, self.live, self.barred = True, False, None
        self.about.update(live=False, why="%s has iterators of its own" % type(self.loader()).__name__)

    @staticmethod
    def of_script(loader):
        """Returns the script's knobs."""
        return {
            "num_workers": loader.num_workers,
            "prefetch_factor": loader.prefetch_factor or 2,
            "pin_memory": int(bool(loader.pin_memory)),
            "in_order": int(getattr(loader, "in_order", True)),
            "persistent_workers": int(bool(loader.persistent_workers)),
        }

    def wanted(self):
        """Returns the knobs that should be in force."""
        if self.fixed:
            return dict(self.script)
        asked, _ = process.current().control.read()
        knobs = dict(self.script)
        if self.trains or self.trains is None and self._follows():  # other loops keep the script's knobs
            knobs.update(asked)
        most, _ = self.limit or (None, None)
        if most is not None:  # perhaps from another loader, whose script has fewer workers
            knobs["num_workers"] = min(knobs["num_workers"], max(most, self.script["num_workers"]))
        if knobs["num_workers"] > self.script["num_workers"] and self.probing():
            knobs["num_workers"] = self.script["num_workers"]
        if not self.has_in_order:
            knobs["in_order"] = 1
        if self.apart:
            knobs["persistent_workers"] = self.script["persistent_workers"]
        if knobs["num_workers"] == 0:
            knobs["persistent_workers"] = 0
        return knobs

    def _follows(self):
        """Returns whether this loader replaces one that trained. Iterable data sets without a length all look alike,
        even those for validation. For these the other loader must be gone."""
        before = _trained.get(self.kin)
        return before is not None and (self.samples > 0 or before() is None)

    def proven(self, iterator):
        """Returns whether more workers can begin than the script has. Raises a Refused if they cannot. If that has to
        be tried first, it returns False until the trial is over, and the loop goes on with the script's workers."""
        from gpustall import trial

        refused = None
        if self.script["num_workers"] == 0:
            refused, forks = starting.unguarded(iterator._context), starting.method(iterator._context) == "fork"
            if refused is None and self.probe is None and self.proof not in _proven:
                tried = trial.Trial if self.live else trial.Stream
                self.probe = tried(iterator) if forks else starting.Probe(iterator)
        if refused is None and self.probe is not None:
            if self.probing():
                return False
            refused = self.probe.refused()
        if refused is not None:
            raise refused
        if self.live and self.samples > 0:
            _proven.add(self.proof)
        return True

    def tries(self, what, index, took):
        """Tries a worker, if some are asked for with the next iterator and the script has none. took is how long the
        loop took for its first batch. Returns the sequence number of the page; -1 to be called at the next batch
        again."""
        seen, state = -1, process.current()
        trial, workers = state.control.trial()
        asks = trial != state.tried and self.trains
        try:
            asked, seen = state.control.read()
            if not self.trains or self.limit or not (asked.get("num_workers") or asks and workers):
                return self._answer(asks, trial, seen)
            if self.probe is None:
                self.proven(what)
            probe: Any = self.probe
            if probe is None:
                return self._answer(asks, trial, seen)
            if probe.waits():
                probe.begin(what, index, took)
            if self.probing():
                return -1
            self.proven(what)
        except Exception as error:
            self.stays_at(0, starting.refused(error, what._context))
        return self._answer(asks, trial, seen)

    @staticmethod
    def _answer(asks, trial, seen):
        if asks:
            process.current().answer(trial)
        return seen

    def runs(self, iterator):
        """Notes that an iterator of PyTorch's own, which nobody watched, is under way. It keeps its knobs."""
        self.iteration, self.applied = process.current().iteration(), dict(self.script)
        self.begun, self.last = self.begun + 1, weakref.ref(iterator)
        if self.live:  # where workers persist, new ones would draw other random numbers
            self.live = self.about["live"] = False
            self.waits = not self.persists

    def _no_longer_waits(self):
        """Notes that the next iterator is one whose knobs can be changed live."""
        self.waits, self.live = False, True
        self.about["live"], state = True, process.current()
        if self.trains:
            state.tell("moved", step=state.steps, script=True, **dict(self.about, knobs=self.script))

    @staticmethod
    def _what(loader):
        """Returns what a loader's workers would be given, as an iterator has it."""
        return types.SimpleNamespace(
            _context=loader.multiprocessing_context or multiprocessing, _dataset=loader.dataset, _collate_fn=loader.collate_fn,
            _init_fn=loader.worker_init_fn, _dataset_kind=loader._dataset_kind, _auto_collation=loader._auto_collation, _drop_last=loader.drop_last,
        )

    def begins_alone(self, iterator, pid=0):
        """Looks at the script's only worker, because others may be asked for: before it begins, when it has moved no file's
        position yet, and again with its pid."""
        from gpustall import trial

        if starting.method(iterator._context) == "fork" and self.proof not in _proven:
            if self.probe is None:
                self.probe = trial.Beside(iterator)
            self.probe.pid = pid

    def _look_beside(self, iterator):
        """Looks at the only worker of an iterator of PyTorch's while it works."""
        self.begins_alone(self._what(self.loader()), iterator._workers[0].pid)
        probe, itself, next_data = self.probe, weakref.ref(iterator), type(iterator)._next_data

        def looked():
            if probe is not None:
                probe.running()
            return next_data(itself())

        iterator._next_data = looked

    @property
    def probe(self):
        """What shows whether workers can begin, or None. What is found out for a script without workers does not hold
        for a script with one."""
        own = self.script["num_workers"]
        if (self.alike, own) not in _probes and not self.live and self._follows() and (self.kin, own) in _probes:
            self.probe = _probes[self.kin, own]  # of a loader that was made anew
        return _probes.get((self.alike, own))

    @probe.setter
    def probe(self, probe):
        for key in {self.alike, self.alike if self.live else self.kin}:
            _probes[key, self.script["num_workers"]] = probe

    @property
    def proof(self):
        """The key of what the probe has shown, which also holds for a data set that is made anew."""
        return self.kin, self.script["num_workers"]

    def probing(self):
        return self.probe is not None and self.probe.running()

    def trial(self):
        """Returns the trial.Trial that waits for a batch; None where none does."""
        return self.probe if self.probe is not None and self.probe.waits() else None

    def at_most(self, workers, refused):
        """Notes how many workers can begin, and tells why not more."""
        _at_most[self.alike] = max(workers, self.script["num_workers"]), refused
        self.tell_most()

    def stays_at(self, workers, refused):
        """Notes how many workers can begin, as at_most does, after more were asked for. Also says so in the script's
        output."""
        process.complain("num_workers stays at %d" % workers, "; ".join(filter(None, (str(refused), refused.hint))))
        self.at_most(workers, refused)
        if self.samples > 0:  # iterable data sets without a length are all kin
            _at_most[self.kin] = _at_most[self.alike]  # a data set that is made anew does not take that risk again

    @property
    def limit(self):
        """How many workers can begin, and the Refused for more; None where no limit is known."""
        return _at_most.get(self.alike) or _at_most.get(self.kin)

    def tell_most(self):
        if self.limit:
            most, refused = self.limit
            process.current().tell("refused", knobs={"num_workers": most}, reason=str(refused), hint=refused.hint)

    def iterate(self, loader, original, asked=False):
        """Returns an iterator over the loader, as its __iter__ does; asked: its class called _get_iterator for a new one."""
        start = now()
        parts.here.drawn = []
        self.script = self.of_script(loader)
        if asked:
            self._set_apart()
        before = -1 if self.sent else _written(loader)
        if self.waits:
            self._no_longer_waits()
        if self.live:
            from gpustall import live

            iterator = live.LiveIter(loader, self) if asked else live.iterator(self, loader)
        else:
            iterator = self._stock(loader, original)
        if before >= 0:
            self._sends((_written(loader) - before) // loader.num_workers)
        self._note(iterator, start)
        return iterator

    def _sends(self, each):
        """Notes how many bytes were sent to each worker, where they are many."""
        self.sent = True
        if each >= MUCH:
            self.about["sent"], self.told = each, False

    def around(self, loader, original):
        """Returns what __iter__ does where the loader's class has its own _get_iterator. That may wrap the iterator,
        which PyTorch keeps where workers persist."""
        start, begun = now(), self.begun
        parts.here.drawn = []
        self._set_apart()
        if not self.live and self.applied not in (None, self.wanted()):
            loader._iterator = None  # the next one has the knobs that were asked for
        made = original(loader)
        iterator = self.last and self.last()
        if self.begun == begun and iterator is not None:
            self._note(iterator, start)
        return made

    def made(self, iterator, loader):
        """Initialises an iterator of PyTorch's that the loader makes itself. Its class depends on num_workers, and is
        changed where other workers were asked for."""
        start = now()
        parts.here.drawn = []
        self.script = self.of_script(loader)
        self._set_apart(live=False)

        kind = type(iterator)
        stock = next(c for c in kind.__mro__ if c in plain_init)
        if kind is not stock:
            self._of_a_class_of_its_own(kind)

        def make(loader):
            iterator.__class__ = kind
            if (loader.num_workers > 0) != (self.script["num_workers"] > 0):
                (iterator.__class__,) = plain_init.keys() - {kind}
            plain_init[stock if kind is not stock else type(iterator)](iterator, loader)
            return iterator

        self._stock(loader, make)
        self._note(iterator, start)

    def _of_a_class_of_its_own(self, kind):
        """Notes that the script's iterators are of a class of its own, which cannot be exchanged for another."""
        if not self.fixed:
            self.fixed, self.told = True, False
            self.about.update(live=False, why=self.why or "%s has iterators of its own" % type(self.loader()).__name__)
        if "_next_index" in kind.__dict__ and kind not in drawing:
            drawing.add(kind)
            kind._next_index = timed_draws(kind._next_index)

    def _set_apart(self, live=True):
        """Notes that the loader's class makes iterators in its own way: it decides how long workers live."""
        live = live and self.live
        if not self.apart or live != self.live:
            self.apart, self.live, self.told = True, live, False
            self.about.update(apart=True, live=live)

    def _note(self, iterator, start):
        """Notes an epoch that begins with an iterator, which the loop asked for at the time start."""
        self.begun += 1
        self.last = weakref.ref(iterator)
        try:
            self._begin(iterator, start)
        except Exception as error:
            process.complain("a DataLoader is not watched", error)

    def _begin(self, iterator, start):
        """Begins the watch over an epoch."""
        loop = loops.current()
        loop.settle(start, self)
        watch = getattr(iterator, "_gpustall", None)
        if watch is None:
            watch = self._watch(iterator)
        elif not watch.first:  # left with break, and begun again
            watch.begin()
        watch.begun = start
        self.tell()
        if loop.open and loop.open[-1][0] is watch:
            loop.stop(start, True)
        elif loop.open:
            loop.stop(start, False)
        end, loop.used = now(), loop.usage.read()
        drawn, parts.here.drawn = getattr(parts.here, "drawn", None), None
        for since, until in drawn or ():
            loop.record(ring.SAMPLER, since, until, watch.iteration)
        loop.record(ring.ITER, start, end, watch.iteration, watch.round, flags=ring.TRAIN if self.trains else 0, step=loop.state.steps if self.trains else -1)
        if loop.open:
            loop.open[-1][2] = end

    def adopt(self, iterator, iteration, start):
        """Begins an epoch with an iterator that the loader made by itself. Its workers use that iteration."""
        if iterator._gpustall is None:
            self.iteration = process.current().iteration() if iteration is None else iteration
        self.script = self.of_script(self.loader())
        self.in_force_now(self.script)
        self._begin(iterator, start)

    def _watch(self, iterator):
        """Puts a watch over a new iterator."""
        number = iterator._gpustall_iteration if self.live else self.iteration
        watch = steps.Watch(self, number)
        watch.iterator = weakref.ref(iterator, watch.over())
        watch.numbered = self.live
        self.watch_inline(iterator, watch)
        iterator._gpustall = watch
        return watch

    def watch_inline(self, iterator, watch):
        """Watches how the loop itself loads, where PyTorch's own iterator has it do so."""
        fetcher = iterator.__dict__.get("_dataset_fetcher")
        if fetcher is None:
            return
        watch.inline = fetching.Task()
        fetching.Observer(process.current().ring(ring.INLINE), watch.iteration, watch.inline, inline=True).watch(fetcher)
        if not self.live and not self.waits and not self.own and not self.why and not self.script["num_workers"]:
            self._show(fetcher)

    def _show(self, fetcher):
        """Tries a worker beside a loop that loads by itself, when some are asked for."""
        what, page, fetch = self._what(self.loader()), process.current().control.page, fetcher.fetch
        took, seen = 0, -1

        def fetched(index):
            nonlocal took, seen
            if not took:
                start = now()
                data = fetch(index)
                took = self.took_to_make + now() - start
                return data
            if page[control.SEQUENCE] != seen:
                seen = self.tries(what, index, took)
            return fetch(index)

        fetcher.fetch = fetched

    def _hear(self):
        """Notes workers beyond the script's that had no batch."""
        told = []
        while self.failed is not None and not self.failed.empty():
            told.append(self.failed.get())
        if told and self.trains:

            number, error = min(told)
            reason = "the data set failed in worker %d before its first batch, as if that had no shard: %s" % (number, error)
            self.stays_at(number, starting.Refused(reason, "have as many shards as workers"))

    def _possible(self, loader):
        """Returns the knobs to put in force. Where the script has no workers, these have only as many as can begin."""
        knobs = self.wanted()
        if knobs == self.nothing:
            return dict(self.script)
        own = self.script["num_workers"]
        if knobs["num_workers"] > own and own <= 1 and not self.why:
            what = self._what(loader)
            try:
                if not self.proven(what):  # a probe tries it meanwhile
                    return dict(knobs, num_workers=own, persistent_workers=self.script["persistent_workers"])
            except Exception as error:
                self.stays_at(own, starting.refused(error, what._context))
                return self.wanted()
        return knobs

    def _stock(self, loader, original):
        """Makes PyTorch's own iterator, which keeps its knobs to its end."""
        start = now()
        self._hear()
        knobs = self._possible(loader)
        self.iteration = process.current().iteration()
        module = pytorch._utils.worker
        plain = module._gpustall_plain
        before = {name: getattr(loader, name) for name in control.NAMES if hasattr(loader, name)}
        changed, failed = knobs != self.script and not self.why, None
        drawn: Any = _drawn(loader) if changed else None
        try:
            if changed:
                for name in before:
                    object.__setattr__(loader, name, knobs[name] if name in ("num_workers", "prefetch_factor") else bool(knobs[name]))
                if loader.num_workers == 0:
                    object.__setattr__(loader, "prefetch_factor", None)
            stale = knobs["persistent_workers"] and not self.persists and self.changed(loader.dataset, loader.collate_fn)
            if stale or self.applied is not None and self.applied != knobs:
                loader._iterator = None  # with the workers that persisted
            self.applied = knobs
            if not self.why and loader.num_workers > 0 and worker.sendable(starting.method(loader.multiprocessing_context or multiprocessing)):
                if loader.num_workers > self.script["num_workers"] and not self.map_style and self.failed is None:
                    self.failed = (loader.multiprocessing_context or multiprocessing).SimpleQueue()
                module._worker_loop = functools.partial(
                    worker.loop_of_stock, process.current().pid, self.iteration, now(), self.script["num_workers"], self.failed
                )
            if not self.why and loader.num_workers == self.script["num_workers"] == 1:
                self.begins_alone(self._what(loader))
            self.making = True
            iterator = original(loader)
        except Exception as error:
            if not changed:
                raise  # the script would fail by itself
            failed = error
            _end(error)
        finally:
            self.making = False
            module._worker_loop = plain
            for name, value in before.items():
                if changed:
                    object.__setattr__(loader, name, value)
        if failed is not None:

            drawn[0].set_state(drawn[1])
            if knobs["num_workers"] <= self.script["num_workers"]:
                process.complain("the script's own settings stay in force", failed)
                self.nothing = knobs
                return self._stock(loader, original)
            self.stays_at(self.script["num_workers"], starting.refused(failed, loader.multiprocessing_context or multiprocessing))
            return self._stock(loader, original)
        self.in_force_now(knobs)
        if len(getattr(iterator, "_workers", ())) == self.script["num_workers"] == 1:
            self._look_beside(iterator)
        self.took_to_make = now() - start
        return iterator

    def changed(self, *things):
        """Returns whether a script changed its data set, for instance by a set_epoch, since this was called last. Workers
        that the script would begin anew have to see that."""
        from gpustall import trial

        before, self.marks = self.marks, trial.marks(*things)
        if before in (None, self.marks):
            return False
        text = "workers begin anew although persistent_workers is on: the script changed the data set between two epochs"
        process.current().tell_news("note", level="info", text=text)
        return True

    @property
    def persists(self):
        """Whether the script keeps workers from epoch to epoch."""
        return bool(self.script["persistent_workers"] and self.script["num_workers"])

    def in_force_now(self, knobs, t=None):
        """Notes the knobs in force, and tells them where the session shows this loader. Returns whether it trains
        and they changed."""
        state = process.current()
        shown = state.shown is not None and state.shown.plan
        if shown and shown is not self and shown.alike == self.alike:  # it may be an evaluation on the same data
            self.untold = knobs
            return False
        before, script = _in_force.get(self.alike, (self.script, self.script))
        _in_force[self.alike] = knobs, self.script
        if before == knobs or not self.trains:
            return False
        if shown and shown.alike == self.alike:
            asked, _ = state.control.read()
            state.tell("applied", t=t or now(), knobs=knobs, step=state.steps,
                       script=any(value != script[name] and name not in asked for name, value in self.script.items()))
        return True

    def shows(self, t):
        """Notes that the session shows this loader from t on, with knobs that were not told."""
        knobs, self.untold = self.untold, None
        if knobs is not None:
            self.in_force_now(knobs, t)

    def moved(self, other, t):
        """Tells that the loop trains with this loader now, instead of the other one."""
        before, knobs = (_in_force.get(plan.alike, (plan.script,))[0] for plan in (other, self))
        differs = any(self.about[name] != other.about[name] for name in ("batch_size", "shuffle", "drop_last"))
        if before != knobs or differs or self.limit != other.limit:
            state = process.current()
            state.tell("moved", t=t, step=state.steps, script=True, **dict(self.about, knobs=knobs))
            self.tell_most()

    def size(self, data):
        """Returns the number of samples in a batch; 0 where it is not known."""
        try:
            return batches.samples(data) if self.collates else 1
        except Exception as error:  # of what looks like a batch
            hook.pass_on(error)
            return 0

    def judge(self, data=None):
        """Returns whether the epoch that begins trains: gradients are on, and this loader is not known as one that does not
        train. data is its first batch."""
        if self.about["batch_size"] is None and data is not None:
            self.about["batch_size"] = self.size(data)
        import torch

        if not torch.is_grad_enabled():
            return False
        if self.trains is None:
            # Evaluations may leave gradients on around their loop, as Transformers' Trainer does. So once the
            # process has learned with another loader, a loader without shuffling trains only if the process
            # learns with it.
            if process.current().learned and self.map_style and not self.about["shuffle"] and self.kin not in _trained:
                return False
            self._set(True)
        return self.trains

    def weigh(self, data):
        """Tells once how large a batch is. On its way a batch is in shared memory."""
        self.weighed = True
        before = _trained.get(self.kin)
        _trained[self.kin] = self.loader
        state = process.current()
        if before is not None and before() is None and not state.anew:
            state.anew = True
            state.tell("anew")
            self.tell_most()
        count, size, on_gpu = batches.tensors(data)
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        import torch.multiprocessing as mp

        process.current().tell_news("batch", tensors=count, bytes=size, on_gpu=on_gpu, files=files, sharing=mp.get_sharing_strategy())

    def unsure(self):
        """Returns whether an epoch trains only from the batch on with which something is learned. Not so where the script may
        learn unseen, as by the replay of a CUDA graph, or takes one batch ahead."""
        return _seen and self.alike not in _ahead

    def takes_ahead(self):
        """Notes that the script learned from its last batch after the loop's end. So the wait for the first one begins a step, as
        there are as many as batches."""
        _ahead.add(self.alike)

    def ended(self, learned, last):
        """Ends an epoch that counted as training. learned is the process's count at its beginning, last whether
        something was learned in its last step. If the process learned nothing since then, but did with other loaders, this
        loader does not train."""
        if last:
            learning_is_seen()
        by_now = process.current().learned
        if by_now > learned:
            self.learns()
        elif by_now and self.alike not in _learners:
            self._set(False)

    def learned(self):
        """Returns whether something was learned with its batches."""
        return self.alike in _learners

    def learns(self):
        _learners.add(self.alike)
        if not self.trains:
            self._set(True)

    def _set(self, trains):
        self.trains = _roles[self.alike] = trains
        if not trains:
            _trained.pop(self.kin, None)
        self.told = False
        self.tell()

    def _describe(self, loader):
        from gpustall import shards

        context = loader.multiprocessing_context or multiprocessing
        refused = starting.unguarded(context) if self.script["num_workers"] == 0 and not self.why and not self.limit else None
        if refused is not None:
            self.barred = 0, refused
        elif not self.map_style and not self.limit:
            most = shards.most(loader)
            self.barred = most and (most[0], starting.Refused(*most[1:]))
        batch_size, shuffle, drop_last = given.sampling(loader)
        samples = given.epoch(loader, batch_size, self.samples) if self.map_style else self.samples
        return dict(
            dataset=self.name, arguments=given.arguments(loader), kind="map" if self.map_style else "iterable", samples=samples, batch_size=batch_size,
            live=self.live, why=self.why, apart=False, has_in_order=self.has_in_order, drop_last=drop_last, shuffle=shuffle, unbatched=not self.collates,
            context=starting.method(context), sent=0, whole=not self.map_style and shards.whole(loader),
        )

    def tell(self):
        """Describes the loader, once it is known whether it trains."""
        if self.told or self.trains is None:
            return
        self.told = True
        process.current().tell_news("loader", trains=self.trains, knobs=self.script, step=process.current().steps, **self.about)
        if self.trains and self.barred is not None:
            self.at_most(*self.barred)


def learning_is_seen():
    global _seen
    _seen = True


def only_these_train(learning):
    """Notes that nothing was learned so far with loaders other than these, by alike, and those taken from in turn."""
    learning |= {plan.alike for plan in plans.values() if plan.beside}
    for alike in _roles:
        _roles[alike] = _roles[alike] and alike in learning
    for plan in list(plans.values()):
        if plan.trains and plan.alike not in learning:
            plan._set(False)


def drew(watch, start, end):
    """Notes that the sampler kept this thread from start to end for the indices of a batch. watch is the iterator's, or
    None while the iterator is made."""
    try:
        loop, drawn = getattr(parts.here, "loop", None), getattr(parts.here, "drawn", None)
        if loop is not None and loop.loading:
            if watch is None:  # a data set's own loader
                return
            if loop.passed_by is not None:
                if end - start < BRIEF:
                    return
                loop.catch_up()
            loop.record(ring.SAMPLER, start, end, watch.iteration)
        elif drawn is not None and pytorch._utils.worker._worker_info is None:  # an iterator is made, or begins again
            drawn.append((start, end))
    except Exception as error:
        process.complain("the sampler is not watched", error)


# The bytes that a worker gets sent as it begins are told from so many on.
MUCH = 1 << 20


def _written(loader):
    """Returns how many bytes this thread has written so far. It is -1 if the loader's workers get nothing sent, or the
    kernel does not tell."""
    try:
        if loader.num_workers < 1 or starting.method(loader.multiprocessing_context or multiprocessing) == "fork":
            return -1
        with open("/proc/thread-self/io", "rb") as file:
            return int(next(line for line in file if line.startswith(b"wchar:")).split()[1])
    except Exception as error:
        hook.pass_on(error)
        return -1


def _end(error):
    """Ends the workers of an iterator of PyTorch's that could not be made, which would complain about its own state."""
    at = error.__traceback__
    while at is not None:
        half = at.tb_frame.f_locals.get("self")
        if isinstance(half, pytorch._MultiProcessingDataLoaderIter):
            half.__dict__.setdefault("_shutdown", True)
            half.__dict__.setdefault("_workers_status", [True] * len(half.__dict__.get("_workers", ())))
            half._shutdown_workers()
        at = at.tb_next


def _count(sampler):
    """Returns how many samples a sampler draws; -1 where it is not known."""
    try:
        return len(sampler)
    except Exception as error:
        hook.pass_on(error)
        return -1


def _drawn(loader):
    """Returns the generator from which an iterator draws its seed, and its state."""
    import torch

    generator = loader.generator if loader.generator is not None else torch.default_generator
    return generator, generator.get_state()


def _threads(loader):
    """Returns whether the script's multiprocessing_context makes threads for processes."""
    kind = getattr(loader.multiprocessing_context, "Process", None)
    return isinstance(kind, type) and issubclass(kind, threading.Thread)
