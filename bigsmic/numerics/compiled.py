"""Numba options of all compiled kernels."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def compiled(kernel: Kernel) -> Kernel:
    """Compile a loop over arrays at its first call, for the types of its arguments.

    Compiled code is cached beside the module for other processes, and runs without the global interpreter lock. Kernels
    are loops over entries, and comparisons: array expressions, reductions, slices that are set, and ``max`` of two
    floats take several times as long to compile, in every first fit.
    """
    return cast(Kernel, numba.njit(cache=True, nogil=True)(kernel))


def compiled_sum(kernel: Kernel) -> Kernel:
    """Compile a loop like :func:`compiled`, but let the compiler choose the order of summation.

    The order is fixed in the compiled code: it is the same for every call and does not depend on other rows.
    """
    return cast(Kernel, numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})(kernel))
