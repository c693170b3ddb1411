"""Graph coloring by backtracking, in a limited number of steps."""

import heapq
from typing import Any

import numpy as np

from bigsmic.numerics.compiled import compiled
from bigsmic.types import Integers


def colorable(edges: Integers, n: int, n_colors: int, n_steps: int) -> bool | None:
    """Search for a coloring in which the ends of every edge differ; the vertex with the fewest free colors comes first.

    Parameters
    ----------
    edges : ndarray of int64, shape (e, 2)
        Between vertices 0 .. n - 1; each edge once.
    n, n_colors : int
    n_steps : int
        Largest number of times that a vertex is given a color, or loses it.

    Returns
    -------
    found : bool or None
        None if the steps have run out.
    """
    both = np.concatenate([edges, edges[:, ::-1]]).astype(np.int64)
    both = both[np.argsort(both[:, 0], kind="stable")]
    indptr = np.searchsorted(both[:, 0], np.arange(n + 1))
    found = _search(indptr, np.ascontiguousarray(both[:, 1]), n_colors, n_steps)
    return None if found < 0 else found > 0


@compiled
def _search(indptr: Integers, indices: Integers, n_colors: int, n_steps: int) -> int:
    """1 if a coloring was found, 0 if there is none, -1 if the steps have run out.

    `indptr` is (n + 1,), `indices` (2 e,): the neighbours of each vertex.
    """
    n = len(indptr) - 1
    color = np.full(n, -1)
    taken = np.zeros((n, n_colors), np.int64)  # number of neighbours of a vertex with each color
    n_free = np.full(n, n_colors)
    queue = [(n_free[vertex], indptr[vertex] - indptr[vertex + 1], vertex) for vertex in range(n)]
    heapq.heapify(queue)
    done, before = np.zeros(n, np.int64), np.zeros(n, np.int64)  # colored vertices, and the colors in use before each
    n_done, used, start, vertex = 0, 0, 0, -1
    for _ in range(n_steps):
        while vertex < 0:  # of fewest free colors; among equals, of most neighbours; some in the queue are outdated
            free, _degree, first = heapq.heappop(queue)
            vertex = first if color[first] < 0 and free == n_free[first] else -1
        stop = used + 1 if used + 1 < n_colors else n_colors  # unused colors are equivalent
        while start < stop and taken[vertex, start] > 0:
            start += 1
        if start < stop:
            color[vertex], done[n_done], before[n_done] = start, vertex, used
            n_done += 1
            _count(indptr, indices, (taken, n_free, color), queue, (vertex, start, 1))
            if n_done == n:
                return 1
            used = start + 1 if start + 1 > used else used
            start, vertex = 0, -1
        elif n_done > 0:
            heapq.heappush(queue, (n_free[vertex], indptr[vertex] - indptr[vertex + 1], vertex))
            n_done -= 1
            vertex, used = done[n_done], before[n_done]
            start, color[vertex] = color[vertex], -1
            _count(indptr, indices, (taken, n_free, color), queue, (vertex, start, -1))
            start += 1
        else:
            return 0
    return -1


@compiled
def _count(indptr: Integers, indices: Integers, state: Any, queue: Any, turn: tuple[int, int, int]) -> None:
    """Count a color that a vertex was given, or has lost, at its neighbours, and queue those with others free.

    `state` has the arrays `taken`, `n_free` and `color`; `turn` the vertex, the color, and 1 or -1.
    """
    taken, n_free, color = state
    vertex, own, change = turn
    for entry in range(indptr[vertex], indptr[vertex + 1]):
        other = indices[entry]
        taken[other, own] += change
        if taken[other, own] == (1 if change > 0 else 0):
            n_free[other] -= change
            if color[other] < 0:
                heapq.heappush(queue, (n_free[other], indptr[other] - indptr[other + 1], other))
