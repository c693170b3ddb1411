"""Arrays as compiled functions take them: numba compiles one anew for arrays that may be written, and that may not."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray


def frozen(array: ArrayLike, dtype: DTypeLike | None = None) -> NDArray[Any]:
    """Array that may not be written, C-ordered: what was read from a store, and what was made here, are then alike.

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
