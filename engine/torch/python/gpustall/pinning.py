"""The thread that moves batches to page-locked memory."""

import itertools
import os
import queue
import threading

import torch
from torch._utils import ExceptionWrapper
from torch.utils.data import _utils

from gpustall import process, ring

now = process.now


class Pinner:
    """The thread that moves batches to page-locked memory, while pin_memory is on."""

    def __init__(self, results, device, iteration):
        self.results, self.device, self.iteration = results, device, iteration
        self.number = next(_pinners)
        current, self.select = _device_calls()
        self.index = current()  # each thread has a current device: this one takes that of the thread that trains
        self.out = queue.Queue()
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        mine = None
        try:
            torch.set_num_threads(1)
            self.select(self.index)
            try:
                mine = ring.Ring(process.FOLDER, ring.PIN, os.getpid(), iteration=self.iteration)
            except Exception as error:
                process.complain("what page-locking takes is not watched", error)
            while not self.stop.is_set():
                try:
                    number, data = self.results.get(timeout=_utils.MP_STATUS_CHECK_INTERVAL)
                except queue.Empty:
                    continue
                if number is None:  # the end of this thread, or of one before it
                    if data == self.number:
                        return
                    continue
                if not isinstance(data, ExceptionWrapper):
                    start = now()
                    try:
                        data = pin(data, self.device)
                    except Exception:
                        data = ExceptionWrapper(where="in pin memory thread for device %s" % self.index)
                    if mine is not None:
                        mine.record(ring.PINNED, start, now(), self.iteration, 0, number)
                self.out.put((number, data))
        except Exception as error:  # the loop raises it
            if not self.stop.is_set():
                self.out.put(error)
        finally:
            if mine is not None:
                mine.close()

    def end(self):
        """Asks the thread to end. Once it has ended, all that it took is in out."""
        self.stop.set()
        self.results.put((None, self.number))


_pinners = itertools.count()


def pin(data, device):
    return _utils.pin_memory.pin_memory(data, device)


def _device_calls():
    """Returns the functions that return this thread's device, and that set it."""
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is not None:
        return accelerator.current_device_index, accelerator.set_device_index
    return torch.cuda.current_device, torch.cuda.set_device


def possible():
    accelerator = getattr(torch, "accelerator", None)
    return accelerator.is_available() if accelerator is not None else torch.cuda.is_available()


def device():
    try:
        accelerator = getattr(torch, "accelerator", None)
        return accelerator.current_accelerator().type if accelerator is not None else None
    except Exception:
        return None
