"""Numba options of all compiled kernels, and their cache."""

import logging
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar, cast

import numba
from numba.core.caching import FunctionCache

log = logging.getLogger("bigsmic")

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def compiled(kernel: Kernel) -> Kernel:
    """Compile a loop over arrays at its first call, for the types of its arguments.

    Compiled code is cached beside the module for other processes, and runs without the global interpreter lock. Kernels
    are loops over entries, and comparisons: array expressions, reductions, slices that are set, and ``max`` of two
    floats take several times as long to compile, in every first fit.
    """
    return _cached(numba.njit(nogil=True)(kernel), kernel)


def compiled_sum(kernel: Kernel) -> Kernel:
    """Compile a loop like :func:`compiled`, but let the compiler choose the order of summation.

    The order is fixed in the compiled code: it is the same for every call and does not depend on other rows.
    """
    return _cached(numba.njit(nogil=True, fastmath={"reassoc", "contract", "nsz"})(kernel), kernel)


class _Cache(FunctionCache):
    """Numba's cache of a kernel in files; a failure to write one, as on a full disk, costs no more than its use."""

    def save_overload(self, *compiled: Any) -> None:
        """Write compiled code, or nothing if that fails."""
        try:
            super().save_overload(*compiled)
        except OSError as error:
            _tell(str(error.strerror))


def _cached(dispatcher: Any, kernel: Kernel) -> Kernel:
    """A kernel with a cache, as of ``numba.njit(cache=True)``, if any folder for it can be written."""
    if dispatcher is not kernel:  # as it is if NUMBA_DISABLE_JIT is set
        try:
            dispatcher._cache = _Cache(kernel)
        except RuntimeError as error:
            if "no locator available" not in str(error):
                raise
            _tell("neither the folder of the package nor the user's caches can be written")
    return cast(Kernel, dispatcher)


@cache  # once for a reason, not for every kernel
def _tell(why: str) -> None:
    log.warning(
        "compiled: code cannot be cached (%s), so that every process compiles for some seconds; set NUMBA_CACHE_DIR to "
        "a folder that can be written",
        why,
    )
