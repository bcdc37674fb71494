"""The threads that compute a query together: started by the first call, stopped with their model (core/pool.c).

A forked process has none of the threads of its parent, so it starts its own.
"""

from __future__ import annotations

import ctypes
import os
import threading
from weakref import WeakSet, finalize

from rheostat.core.library import ErrorText, check
from rheostat.core.values import Block
from rheostat.errors import NotCopyable


class Pool(NotCopyable):
    """The threads of one open model. is_missing: they are still to be started; never true of a single thread."""

    def __init__(self, library: ctypes.CDLL, model: ctypes.c_void_p, threads: int) -> None:
        self._library, self._model, self._threads = library, model, threads
        self.is_missing = threads > 1
        self._starting = threading.Lock()
        self._end: finalize[..., Pool] | None = None

    def start(self) -> None:
        """Before the first call that computes. No other call can be using the model: each comes here first."""
        with self._starting:
            if not self.is_missing:
                return
            memory, pool, error = Block(self._library.rheo_pool_bytes(self._threads)), ctypes.c_void_p(), ErrorText()
            status = self._library.rheo_pool_start(
                ctypes.byref(pool), self._threads, memory.address, memory.size, ctypes.byref(error)
            )
            check(status, error)
            self._end = finalize(self, _stop, self._library, pool, memory)
            self._end.atexit = False  # the system ends them with the process, whoever may still be computing
            self._library.rheo_use_workers(self._model, self._library.rheo_pool_workers(pool))
            _started.add(self)
            self.is_missing = False

    def forget(self) -> None:
        """In a forked process, which has none of the threads: the next call starts others."""
        if self._end is not None:
            self._end.detach()
            self._library.rheo_use_workers(self._model, None)
        self._starting, self._end, self.is_missing = threading.Lock(), None, True


_started: WeakSet[Pool] = WeakSet()


def _stop(library: ctypes.CDLL, pool: ctypes.c_void_p, memory: Block) -> None:
    library.rheo_pool_stop(pool)
    assert memory.size  # stays until here


def _forget_all() -> None:
    for pool in list(_started):
        pool.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
