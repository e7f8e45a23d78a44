"""What is known and wanted of DataLoaders: their settings, whether they train, and their iterators."""

import functools
import multiprocessing
import resource
import threading
import types
import weakref
from typing import Any

from gpustall import batches, control, fetching, given, loops, process, ring, steps, worker

now = process.now

pytorch: Any = None  # torch.utils.data.dataloader
plans = weakref.WeakKeyDictionary()  # of DataLoaders
_roles = {}  # of loaders that look alike: whether they train
_learners = set()  # those with whose batches something was learned
_trained = {}  # the last loader that trained of those of a kin: where it is gone, the script makes them anew
_in_force = {}  # the knobs of loaders that look alike
_at_most = {}  # workers that can begin, where more failed to, of loaders that look alike
_probes = {}  # whether workers can begin at all, of loaders that look alike
why_not_live = ""  # why no knob of a loader can be changed while it runs
plain_init = {}  # the __init__ of PyTorch's iterators, by class


class Plan:
    """What is known and wanted of one DataLoader."""

    def __init__(self, loader):
        dataset, module = loader.dataset, pytorch
        stock = isinstance(loader, module.DataLoader)  # else all that it has is what an iterator asks for
        pipes = tuple(p for p in (getattr(module, "IterDataPipe", None), getattr(module, "MapDataPipe", None)) if p)
        pipe = isinstance(dataset, pipes)
        if pipe:
            dataset = getattr(dataset, "_datapipe", dataset)  # which the loader wrapped
        self.name = given.dataset(loader)
        sampler = getattr(loader, "sampler", None)
        self.alike = (self.name, id(dataset), type(sampler).__name__, _count(sampler), getattr(loader, "batch_size", None))
        self.trains = _roles.get(self.alike)  # None while it is not known
        try:
            self.samples = len(given.behind(loader).dataset)
        except Exception:
            self.samples = 0
        self.kin = self.name, self.samples, *self.alike[2:]  # as of a data set that is made anew in each epoch, too
        self.loader = weakref.ref(loader)
        self.beside = False  # another loader, in turn with which it is taken from
        self.told = self.weighed = self.own = False
        self.map_style = loader._dataset_kind == module._DatasetKind.Map
        self.why = why_not_live
        if not self.why and _threads(loader):
            self.why = "its workers are threads of the script's own process"
        self.live = self.map_style and not self.why and not pipe
        self.apart = self.making = False  # its class comes to PyTorch's iterators in a way of its own; PyTorch makes one
        self.begun, self.last = 0, None  # epochs, and a weak reference to the last one's iterator
        self.applied = None  # of PyTorch's own iterators: the knobs that the last one was made with
        self.has_in_order = hasattr(loader, "in_order")
        self.collates = loader._auto_collation or not stock
        self.script = self.of_script(loader)
        self.barred = None  # how many workers can begin, and why no more, where that is known beforehand
        self.nothing = None  # knobs that came to nothing
        self.failed = None  # by which workers that the script has not tell why they had no batch
        self.about = self._describe(loader)

    def keeps_own(self):
        """The loader's iterators are its own: no knob of theirs can be changed."""
        self.own, self.live, self.barred = True, False, None
        self.about.update(live=False, why="%s has iterators of its own" % type(self.loader()).__name__)

    @staticmethod
    def of_script(loader):
        """The knobs as the script has them."""
        return {
            "num_workers": loader.num_workers,
            "prefetch_factor": loader.prefetch_factor or 2,
            "pin_memory": int(bool(loader.pin_memory)),
            "in_order": int(getattr(loader, "in_order", True)),
            "persistent_workers": int(bool(loader.persistent_workers)),
        }

    def wanted(self):
        """The knobs that are to be in force."""
        asked, _ = process.current().control.read()
        knobs = dict(self.script)
        if self.trains or self.trains is None and self._follows():  # a loop that does not train keeps what the script has
            knobs.update(asked)
        if self.alike in _at_most:  # another loader's, maybe, which had fewer in the script
            knobs["num_workers"] = min(knobs["num_workers"], max(_at_most[self.alike][0], self.script["num_workers"]))
        if self.probing():
            knobs["num_workers"] = self.script["num_workers"]
        if not self.has_in_order:
            knobs["in_order"] = 1
        if self.apart:
            knobs["persistent_workers"] = self.script["persistent_workers"]
        if knobs["num_workers"] == 0:
            knobs["persistent_workers"] = 0
        return knobs

    def _follows(self):
        """Whether this loader is in place of one that trained. Of iterable data sets that do not know
        their length all are alike, that of the validation too: there the other one is to be gone."""
        before = _trained.get(self.kin)
        return before is not None and (self.samples > 0 or before() is None)

    def proven(self, iterator):
        """Whether workers, of which the script has none, can begin; fails where they cannot. Where
        that has to be tried first, the loop goes on without them meanwhile."""
        from gpustall import starting

        refused = starting.unguarded(iterator._context)
        if refused is None and starting.method(iterator._context) != "fork":
            if self.alike not in _probes:
                _probes[self.alike] = starting.Probe(iterator)
            if self.probing():
                return False
            refused = _probes[self.alike].refused()
        if refused is not None:
            raise refused
        return True

    def probing(self):
        return self.alike in _probes and _probes[self.alike].running()

    def at_most(self, workers, refused):
        """Takes note that no more workers can begin, and tells."""
        _at_most[self.alike] = max(workers, self.script["num_workers"]), refused
        self.tell_most()

    def stays_at(self, workers, refused):
        """The same, where more were asked for: the script's output says so too."""
        process.complain("num_workers stays at %d" % workers, "; ".join(filter(None, (str(refused), refused.hint))))
        self.at_most(workers, refused)

    def tell_most(self):
        if self.alike in _at_most:
            most, refused = _at_most[self.alike]
            process.current().tell("refused", knobs={"num_workers": most}, reason=str(refused), hint=refused.hint)

    def iterate(self, loader, original, asked=False):
        """An iterator over the loader, as its __iter__ gives one; or a new one, where its class asked for that."""
        start = now()
        self.script = self.of_script(loader)
        if asked:
            self._set_apart()
        if self.live:
            from gpustall import live

            iterator = live.LiveIter(loader, self) if asked else live.iterator(self, loader)
        else:
            iterator = self._stock(loader, original)
        self._note(iterator, start)
        return iterator

    def around(self, loader, original):
        """What __iter__ gives where the loader's class has a _get_iterator: that may put something around our
        iterator, which PyTorch keeps where workers persist."""
        start, begun = now(), self.begun
        self._set_apart()
        if not self.live and self.applied not in (None, self.wanted()):
            loader._iterator = None  # the next one has what the screen asked for
        made = original(loader)
        iterator = self.last and self.last()
        if self.begun == begun and iterator is not None:
            self._note(iterator, start)
        return made

    def made(self, iterator, loader):
        """Makes an iterator of PyTorch's for a loader that does so itself. What kind it is depends on num_workers:
        where the screen asked for another, it is of the other one."""
        start = now()
        self.script = self.of_script(loader)
        self._set_apart(live=False)

        kind = type(iterator)

        def make(loader):
            iterator.__class__ = kind
            if (loader.num_workers > 0) != (self.script["num_workers"] > 0):
                (iterator.__class__,) = plain_init.keys() - {kind}
            plain_init[type(iterator)](iterator, loader)
            return iterator

        self._stock(loader, make)
        self._note(iterator, start)

    def _set_apart(self, live=True):
        """The loader's class comes to its iterators in a way of its own: for how long workers live is up to it."""
        live = live and self.live
        if not self.apart or live != self.live:
            self.apart, self.live, self.told = True, live, False
            self.about.update(apart=True, live=live)

    def _note(self, iterator, start):
        """Takes note of an epoch that begins with an iterator that was asked for at start."""
        self.begun += 1
        self.last = weakref.ref(iterator)
        try:
            self._begin(iterator, start)
        except Exception as error:
            process.complain("a DataLoader is not watched", error)

    def _begin(self, iterator, start):
        """An epoch begins with an iterator that was asked for at start."""
        watch = getattr(iterator, "_gpustall", None)
        if watch is None:
            watch = self._watch(iterator)
        elif not watch.first:  # left with break, and begun anew
            watch.begin()
        watch.begun = start
        self.tell()
        loop = loops.current()
        loop.settle(start)
        if loop.open and loop.open[-1][0] is watch:
            loop.stop(start, True)
        elif loop.open:
            loop.stop(start, False)
        end, loop.used = now(), loop.usage.read()
        loop.record(ring.ITER, start, end, watch.iteration, watch.round, flags=ring.TRAIN if self.trains else 0, step=loop.state.steps if self.trains else -1)
        if loop.open:
            loop.open[-1][2] = end

    def adopt(self, iterator, iteration, start):
        """An epoch begins with an iterator that the loader made by itself, whose workers go by that iteration."""
        if iterator._gpustall is None:
            self.iteration = process.current().iteration() if iteration is None else iteration
        self.script = self.of_script(self.loader())
        self.in_force_now(self.script)
        self._begin(iterator, start)

    def _watch(self, iterator):
        """The watch over a new iterator."""
        number = iterator._gpustall_iteration if self.live else self.iteration
        watch = steps.Watch(self, number)
        watch.iterator = weakref.ref(iterator, watch.over())
        watch.numbered = self.live
        fetcher = getattr(iterator, "_dataset_fetcher", None)
        if fetcher is not None:
            watch.inline = fetching.Task()
            fetching.Observer(process.current().ring(ring.INLINE), number, watch.inline).watch(fetcher)
        iterator._gpustall = watch
        return watch

    def _hear(self):
        """Takes note of workers that had no batch, of more than the script has."""
        told = []
        while self.failed is not None and not self.failed.empty():
            told.append(self.failed.get())
        if told and self.trains:
            from gpustall import starting

            number, error = min(told)
            reason = "the data set failed in worker %d before its first batch, as if that had no shard: %s" % (number, error)
            self.stays_at(number, starting.Refused(reason, "have as many shards as workers"))

    def _possible(self, loader):
        """The knobs that are to be in force; where the script has no workers, with those only that can begin."""
        knobs = self.wanted()
        if knobs == self.nothing:
            return dict(self.script)
        if knobs["num_workers"] and not self.script["num_workers"] and not self.why:
            from gpustall import starting

            context = loader.multiprocessing_context or multiprocessing
            what = types.SimpleNamespace(_context=context, _dataset=loader.dataset, _collate_fn=loader.collate_fn, _init_fn=loader.worker_init_fn)
            try:
                if not self.proven(what):  # which is tried meanwhile
                    return dict(knobs, num_workers=0, persistent_workers=0)
            except Exception as error:
                self.stays_at(0, starting.refused(error, context))
                return self.wanted()
        return knobs

    def _stock(self, loader, original):
        """PyTorch's own iterator. What the screen asked for holds for all of it."""
        self._hear()
        knobs = self._possible(loader)
        self.iteration = process.current().iteration()
        module = pytorch._utils.worker
        before = {name: getattr(loader, name) for name in control.NAMES if hasattr(loader, name)}
        changed, failed = knobs != self.script and not self.why, None
        drawn: Any = _drawn(loader) if changed else None
        try:
            if changed:
                for name in before:
                    object.__setattr__(loader, name, knobs[name] if name in ("num_workers", "prefetch_factor") else bool(knobs[name]))
                if loader.num_workers == 0:
                    object.__setattr__(loader, "prefetch_factor", None)
            if self.applied is not None and self.applied != knobs:
                loader._iterator = None  # with the workers that persisted
            self.applied = knobs
            if not self.why and loader.num_workers > 0:
                if loader.num_workers > self.script["num_workers"] and not self.map_style and self.failed is None:
                    self.failed = (loader.multiprocessing_context or multiprocessing).SimpleQueue()
                module._worker_loop = functools.partial(
                    worker.loop_of_stock, process.current().pid, self.iteration, now(), self.script["num_workers"], self.failed
                )
            self.making = True
            iterator = original(loader)
        except Exception as error:
            if not changed:
                raise  # as it is without us
            failed = error
        finally:
            self.making = False
            module._worker_loop = module._gpustall_plain
            for name, value in before.items():
                if changed:
                    object.__setattr__(loader, name, value)
        if failed is not None:
            from gpustall import starting

            drawn[0].set_state(drawn[1])
            if knobs["num_workers"] <= self.script["num_workers"]:
                process.complain("the script's own settings stay in force", failed)
                self.nothing = knobs
                return self._stock(loader, original)
            self.stays_at(self.script["num_workers"], starting.refused(failed, loader.multiprocessing_context or multiprocessing))
            return self._stock(loader, original)
        self.in_force_now(knobs)
        return iterator

    @property
    def persists(self):
        """Whether the script keeps workers from epoch to epoch."""
        return bool(self.script["persistent_workers"] and self.script["num_workers"])

    def in_force_now(self, knobs):
        """Takes note of knobs that were put in force, and tells of them where the session is about
        this loader; whether they are others than before."""
        before, script = _in_force.get(self.alike, (self.script, self.script))
        _in_force[self.alike] = knobs, self.script
        if before == knobs or not self.trains:
            return False
        state = process.current()
        if state.shown is not None and state.shown.plan.alike == self.alike:
            asked, _ = state.control.read()
            state.tell("applied", knobs=knobs, step=state.steps,
                       script=any(value != script[name] and name not in asked for name, value in self.script.items()))
        return True

    def moved(self, other, t):
        """Tells that the loop trains with this loader now, and no more with the other one."""
        before, knobs = (_in_force.get(plan.alike, (plan.script,))[0] for plan in (other, self))
        differs = any(self.about[name] != other.about[name] for name in ("batch_size", "shuffle", "drop_last"))
        if before != knobs or differs or _at_most.get(self.alike) != _at_most.get(other.alike):
            state = process.current()
            state.tell("moved", t=t, step=state.steps, script=True, **dict(self.about, knobs=knobs))
            self.tell_most()

    def size(self, data):
        """Samples in a batch; 0 where that cannot be told."""
        try:
            return batches.samples(data) if self.collates else 1
        except Exception:  # of what looks like a batch
            return 0

    def judge(self, data=None):
        """Whether the epoch that begins trains: gradients are on in it, and it is not known that
        this loader's do not. data is its first batch."""
        if self.about["batch_size"] is None and data is not None:
            self.about["batch_size"] = self.size(data)
        import torch

        if not torch.is_grad_enabled():
            return False
        if self.trains is None:
            # Evaluations may have gradients on around their loop (Transformers' Trainer has). Once something is
            # learned elsewhere, a loader in the data set's own order is first to show that something is with it.
            if process.current().learned and self.map_style and not self.about["shuffle"] and self.kin not in _trained:
                return False
            self._set(True)
        return self.trains

    def weigh(self, data):
        """Tells once how large a batch is: what lies in shared memory while it is under way."""
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

    def ended(self, learned):
        """An epoch that was taken for training has ended, at whose beginning so much was learned.
        Where nothing is but in other loops, it was none."""
        by_now = process.current().learned
        if by_now > learned:
            self.learns()
        elif by_now and self.alike not in _learners:
            self._set(False)

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
        from gpustall import shards, starting

        context = loader.multiprocessing_context or multiprocessing
        refused = starting.unguarded(context) if self.script["num_workers"] == 0 and not self.why and self.alike not in _at_most else None
        if refused is not None:
            self.barred = 0, refused
        elif not self.map_style and self.alike not in _at_most:
            most = shards.most(loader)
            self.barred = most and (most[0], starting.Refused(*most[1:]))
        batch_size, shuffle, drop_last = given.sampling(loader)
        return dict(
            dataset=self.name, arguments=given.arguments(loader), kind="map" if self.map_style else "iterable", samples=self.samples, batch_size=batch_size,
            live=self.live, why=self.why, apart=False, has_in_order=self.has_in_order, drop_last=drop_last, shuffle=shuffle, unbatched=not self.collates,
            context=starting.method(context), whole=not self.map_style and shards.whole(loader),
        )

    def tell(self):
        """Describes the loader, once it is known what for it is."""
        if self.told or self.trains is None:
            return
        self.told = True
        process.current().tell_news("loader", trains=self.trains, knobs=self.script, step=process.current().steps, **self.about)
        if self.trains and self.barred is not None:
            self.at_most(*self.barred)


def _count(sampler):
    """How many samples a sampler draws; -1 where it does not tell."""
    try:
        return len(sampler)
    except Exception:
        return -1


def _drawn(loader):
    """The generator of which an iterator draws its seed, and its state."""
    import torch

    generator = loader.generator if loader.generator is not None else torch.default_generator
    return generator, generator.get_state()


def _threads(loader):
    """Whether what the script gave for processes are threads."""
    kind = getattr(loader.multiprocessing_context, "Process", None)
    return isinstance(kind, type) and issubclass(kind, threading.Thread)
