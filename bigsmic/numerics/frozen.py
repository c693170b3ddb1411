"""Read-only arrays for compiled functions, as numba compiles a function anew for writable and read-only arrays."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray


def frozen(array: ArrayLike, dtype: DTypeLike | None = None) -> NDArray[Any]:
    """Read-only C-ordered array, so that arrays from a store and those made in this process have the same type.

    Parameters
    ----------
    array : array_like
    dtype : dtype, optional

    Returns
    -------
    frozen : ndarray
        A view, if the array is of the dtype and C-ordered.
    """
    view = np.ascontiguousarray(array, dtype).view()
    view.flags.writeable = False
    return view
