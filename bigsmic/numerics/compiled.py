"""What numba is told of every kernel, in one place."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def compiled(kernel: Kernel) -> Kernel:
    """Compile a loop over arrays at its first call, for the types of its arguments.

    Compiled code is kept beside the module, so that other processes load it, and runs on threads side by side.
    """
    return cast(Kernel, numba.njit(cache=True, nogil=True)(kernel))


def compiled_sum(kernel: Kernel) -> Kernel:
    """Compile a loop as :func:`compiled` does, with terms of a sum in the order that the processor adds fastest.

    The order is that of the compiled code: the same for every call, whatever the rows around.
    """
    return cast(Kernel, numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})(kernel))
