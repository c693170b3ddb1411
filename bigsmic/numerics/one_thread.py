"""BLAS, LAPACK and OpenMP on one thread, while any of the callers in this process needs it."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import threadpoolctl


class _OneThread:
    """Limits BLAS and OpenMP to one thread from the first holder's begin to the last one's end, in whatever order.

    BLAS has one number of threads in the process: only the first holder knows what it was before. OpenMP has one for
    every thread that calls it.
    """

    def __init__(self) -> None:
        self._lock, self._holders, self._caller = threading.Lock(), 0, threading.local()
        self._found: Any = None
        self._n_modules = 0

    def acquire(self) -> None:
        """Begin to hold; any thread may release."""
        depth = getattr(self._caller, "depth", 0)
        with self._lock:
            libraries = self._libraries()
            if self._holders == 0:
                _take_control()
                self._blas = libraries.select(user_api="blas").limit(limits=1)
            self._holders += 1
        if depth == 0:
            self._caller.openmp = libraries.select(user_api="openmp").limit(limits=1)
        self._caller.depth = depth + 1

    def _libraries(self) -> Any:
        """Libraries that have threads; found again only if modules were imported, which load them, as it takes 4 ms."""
        n_modules = len(sys.modules)
        if self._n_modules != n_modules:
            self._found, self._n_modules = threadpoolctl.ThreadpoolController(), n_modules
        return self._found

    def release(self) -> None:
        """End to hold."""
        with self._lock:
            self._holders -= 1
            if self._holders == 0:
                _take_control()
                self._blas.restore_original_limits()
                _take_control()  # now nobody has it
        depth = getattr(self._caller, "depth", 0)
        if depth == 1:
            self._caller.openmp.restore_original_limits()
        self._caller.depth = max(0, depth - 1)  # of a holder that another thread has begun, it is 0


def _take_control() -> None:
    """Let this thread set OpenBLAS: since 3.8, threadpoolctl silently ignores all threads but the first that did."""
    openblas = getattr(threadpoolctl, "OpenBLASController", None)
    clear = getattr(openblas, "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)


ONE_THREAD = _OneThread()
"""The holders of this process."""


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS and LAPACK in the whole process, and OpenMP in this thread, to one thread each."""
    ONE_THREAD.acquire()
    try:
        yield
    finally:
        ONE_THREAD.release()
