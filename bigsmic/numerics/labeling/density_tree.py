"""Clusters of any shape, by how long they stay apart and large as sparse rows are taken away.

Rows that are at most some limit from their neighbours, and the edges between them, are a graph. As the limit falls, its
components lose rows, and fall apart. A cluster is a component and what is left of it at lower limits, until it falls
into several large ones, or into none. Its *persistence* is the excess of mass

    sum_i (1 / l_i - 1 / l)

over its rows, where l is the limit at which it parted from others, and l_i that below which row i is no longer in it
[Campello et al. 2015]. Clusters are chosen with the largest sum of persistences, of which none is in another.
"""

from typing import NamedTuple

import numpy as np

from bigsmic.types import Floats, Integers

ABSENT = -1
"""Component of a row that is farther than the limit from its neighbours."""


class Cluster(NamedTuple):
    """A component that stays apart from others.

    Parameters
    ----------
    level : int
        Number of the largest limit at which it is apart.
    rows : ndarray of int64
        Its rows there.
    """

    level: int
    rows: np.ndarray


def clusters(components: Integers, limits: Floats, least: float) -> list[Cluster]:
    """The clusters of largest persistence, at least two; none if a single one of all rows persists longer.

    Parameters
    ----------
    components : ndarray of int, shape (levels, s)
        Component of every row at each limit; :data:`ABSENT` for rows that are not in the graph.
    limits : ndarray of float64, shape (levels,), ascending
        Positive, but for those of equal rows.
    least : float
        Rows of a large component.

    Returns
    -------
    clusters : list of Cluster
    """
    density = 1 / np.maximum(limits, np.finfo(np.float32).tiny)
    parts = _large(components, np.arange(components.shape[1]), len(limits) - 1, least)
    found = [cluster for part in parts for cluster in _best(components, density, part, 0.0, least)[0]]
    return found if len(found) > 1 else []


def _large(components: Integers, rows: Integers, level: int, least: float) -> list[Cluster]:
    """Large components of some rows at one level."""
    found = components[level, rows]
    numbers, counts = np.unique(found[found != ABSENT], return_counts=True)
    return [Cluster(level, rows[found == number]) for number in numbers[counts >= least]]


def _best(
    components: Integers, density: Floats, cluster: Cluster, born: float, least: float
) -> tuple[list[Cluster], float]:
    """A cluster or those into which it falls, whichever persist longer, and their persistence."""
    rows, persistence, parts = cluster.rows, 0.0, [cluster]
    for level in range(cluster.level, -1, -1):
        parts = _large(components, rows, level - 1, least) if level else []
        left = parts[0].rows if len(parts) == 1 else rows[:0]
        persistence += (len(rows) - len(left)) * float(density[level] - born)
        if len(parts) != 1:
            break
        rows = left
    found = [_best(components, density, part, float(density[level]), least) for part in parts]
    total = sum(persistence_of for _, persistence_of in found)
    if total > persistence:
        return [chosen for of_part, _ in found for chosen in of_part], total
    return [cluster], persistence
