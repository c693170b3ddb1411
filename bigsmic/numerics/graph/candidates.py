"""Neighbours of rows, chosen among more candidates: rows that lie denser count as farther away.

In many columns, rows of a narrow cluster are nearer to those of a wide one than these are to each other, and so among
the nearest of very many rows ("hubs"). Distances in units of the local scales of both rows put that right [1]_, but
they also bring rows nearer that lie sparser, and let noise connect clusters. So here the smaller scale counts alone:
with ``s_i`` the distance to the tenth nearest of row i, its neighbours are the rows j of least separation,
``d_ij^2 / min(s_i, s_j)``. Rows at least as sparse as i keep the order of their distances, and denser ones come later.

References
----------
.. [1] Schnitzer, Flexer, Schedl, Widmer, "Local and global scaling reduce hubs in space", JMLR 13, 2012.
"""

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.graph.neighbor_lists import tth_squares
from bigsmic.types import Floats, Integers

SCALE_NEIGHBOR = 10
"""Neighbour whose distance is the local scale of a row."""
DENSER = 1.5
"""Ratio of local scales from which on a neighbour lies much denser than the row that lists it."""
MANY_DENSER, MANY_UNLISTED = 0.1, 0.02
"""Shares beyond which, both, neighbours are chosen: of the ten nearest of rows, those that lie much denser; and of the
rows, those that are among no other row's ten nearest."""


def are_many(denser: float, unlisted: float) -> bool:
    """Whether hubs are so many that neighbours are chosen, from both shares of :data:`MANY_DENSER`."""
    return denser > MANY_DENSER and unlisted > MANY_UNLISTED


def local_scales(squares: Floats) -> NDArray[np.float32]:
    """Distances to the tenth nearest, or the last one that is known; float32, shape (b,), above 0.

    Parameters
    ----------
    squares : ndarray of float32, shape (b, w)
        Squared distances to the nearest of each row, ascending; inf where there is none.
    """
    found = np.sqrt(tth_squares(squares, SCALE_NEIGHBOR))
    return np.maximum(np.where(np.isfinite(found), found, 0), np.finfo(np.float32).tiny)


def separations(squares: Floats, own: Floats, theirs: Floats) -> NDArray[np.float64]:
    """``d_ij^2 / min(s_i, s_j)``, float64.

    Parameters
    ----------
    squares : ndarray of float32
        Squared distances; inf where there is none.
    own, theirs : ndarray of float32, of shapes that broadcast to that of `squares`
        Local scales of both rows.
    """
    found: NDArray[np.float64] = squares / np.minimum(own, theirs).astype(np.float64)
    return found


def least_separated(indices: Integers, squares: Floats, separated: Floats, k: int) -> tuple[Integers, Floats, Floats]:
    """The k candidates of least separation; ties go to the nearer.

    Parameters
    ----------
    indices : ndarray of int, shape (b, w)
        Candidates by (distance, row); -1 where there is none.
    squares, separated : ndarray of float32 and float64, shape (b, w)
        Squared distances and separations; inf where there is none.
    k : int
        At most w.

    Returns
    -------
    indices, squares, separated : ndarrays, shape (b, k)
        By separation.
    """
    order = np.argsort(separated, axis=1, kind="stable")[:, :k]
    return (
        np.take_along_axis(indices, order, axis=1),
        np.take_along_axis(squares, order, axis=1),
        np.take_along_axis(separated, order, axis=1),
    )
