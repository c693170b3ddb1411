"""Consistency of links: must-linked rows are merged to vertices, and checked for contradictions and feasibility."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import csgraph, csr_array

from bigsmic.errors import InputError
from bigsmic.numerics.constraints.coloring import colorable
from bigsmic.types import Integers

SHOWN = 6  # rows that an error lists
COLORING_STEPS = 200_000  # of the search for a labeling that satisfies all cannot-links, before it gives up


@dataclass(frozen=True, eq=False)
class Quotient:
    """Quotient graph of linked rows: must-linked rows are one vertex.

    Parameters
    ----------
    links : bigsmic.numerics.constraints.links.Links
    ties : ndarray of int64, shape (e, 2)
        Pairs that must be together. Numbers below T are linked rows, those from T on stand for groups.
    vertex : ndarray of int64, shape (T,)
    apart : ndarray of int64, shape (a, 2)
        Pairs of vertices that cannot be together: one for every cannot-link, then one for every two groups apart.
    """

    links: Any
    ties: np.ndarray
    vertex: np.ndarray
    apart: np.ndarray

    @classmethod
    def of(cls, links: Any) -> "Quotient":
        """Merge must-linked rows."""
        n, members = len(links.rows), np.flatnonzero(links.group >= 0)
        ties = np.concatenate([links.must, np.stack([members, n + links.group[members]], axis=1)])
        vertex = _components(ties, n + links.n_groups)
        return cls(links, ties, vertex[:n], np.concatenate([vertex[links.cannot], vertex[n + links.apart]]))

    @property
    def n_vertices(self) -> int:
        """Number of vertices."""
        return int(self.vertex.max(initial=-1)) + 1

    def refuse_contradictions(self) -> None:
        """Refuse a cannot-link within a vertex; the message shows the chain of links between its ends."""
        clash = self.apart[:, 0] == self.apart[:, 1]
        if not clash.any():
            return
        links, at = self.links, int(np.argmax(clash))
        if at < len(links.cannot):
            i, j = links.cannot[at]
            what = f"cannot_links: rows {links.rows[i]} and {links.rows[j]}"
        else:
            i, j = (np.argmax(links.group == g) for g in links.apart[at - len(links.cannot)])
            what = f"labels: rows {links.rows[i]} and {links.rows[j]}, of different labels,"
        path = _path(self.ties, len(links.rows) + links.n_groups, int(i), int(j))
        chain = " - ".join(str(links.rows[v]) for v in path if v < len(links.rows))
        raise InputError(
            f"{what} are joined by must-links or equal labels: {chain}; drop one of these links "
            f"({int(clash.sum())} such contradictions)"
        )

    def refuse_infeasible(self, n_clusters: int) -> None:
        """Refuse links that are found to have no labeling with so many clusters, some of which may be empty."""
        n_labels = self.links.n_groups
        if n_labels > n_clusters:
            raise InputError(
                f"labels: got {n_labels} different labels for {n_clusters} clusters; ask for at least {n_labels}"
            )
        found = self._infeasible(n_clusters)
        if len(found):
            rows = self.links.rows[np.unique(self.vertex, return_index=True)[1]][found]
            shown = ", ".join(str(row) for row in rows[:SHOWN]) + (", .." if len(rows) > SHOWN else "")
            raise InputError(
                f"cannot_links: no labeling with {n_clusters} clusters satisfies all links among rows {shown} (each "
                "stands for all rows must-linked with it); ask for more clusters, or drop one of these links"
            )

    def refuse_too_few_groups(self, n_clusters: int) -> None:
        """Refuse links that join the rows to fewer groups than clusters, so that some cluster would be empty."""
        most = self.most_clusters
        if most < n_clusters <= self.links.n_rows:
            raise InputError(
                f"must_links: got {n_clusters} clusters, but links and equal labels join the rows to at most {most} "
                "groups; ask for as many clusters, or drop links"
            )

    @property
    def most_clusters(self) -> int:
        """Largest number of clusters that must-links and equal labels allow: vertices, and rows without links."""
        return int(self.links.n_rows - len(self.links.rows)) + self.n_vertices

    def least_clusters(self) -> int:
        """Smallest number of clusters, from 1, for which no contradiction among the links is found."""
        n_clusters = 1
        while len(self._infeasible(n_clusters)):
            n_clusters += 1
        return n_clusters

    def _infeasible(self, n_clusters: int) -> Integers:
        """Vertices that are found to allow no labeling with so many clusters; empty if none are."""
        if n_clusters == 2:
            return self._odd_cycle()
        return _uncolorable(_core(distinct(self.apart), self.n_vertices, n_clusters), self.n_vertices, n_clusters)

    def _odd_cycle(self) -> Integers:
        """Vertices of an odd cycle of cannot-links; none if two clusters are enough."""
        n = self.n_vertices
        sides = _components(self._double_cover(), 2 * n)
        odd = np.flatnonzero(sides[:n] == sides[n:])
        return np.unique(_path(self._double_cover(), 2 * n, odd[0], n + odd[0]) % n) if len(odd) else odd

    def _double_cover(self) -> Integers:
        """Edges of the bipartite double cover of the graph of vertices that cannot be together."""
        first, second = self.apart.T
        return np.concatenate(
            [np.stack(pair, axis=1) for pair in ((first, second + self.n_vertices), (first + self.n_vertices, second))]
        )

    def closed(self, n_clusters: int | None) -> Any:
        """Links with vertices as groups; for two clusters, vertices known to be on one side are one group."""
        group, apart = self.vertex, self.apart
        if n_clusters == 2:
            n = self.n_vertices
            side = _components(self._double_cover(), 2 * n)
            group, apart = side[self.vertex], np.stack([side[:n], side[n:]], axis=1)
        present, group = np.unique(group, return_inverse=True)
        apart = apart[np.isin(apart, present).all(axis=1)]
        return replace(self.links, group=group.astype(np.int64), apart=distinct(np.searchsorted(present, apart)))


def _components(edges: Integers, n: int) -> Integers:
    return csgraph.connected_components(_adjacency(edges, n), directed=False)[1].astype(np.int64)


def _path(edges: Integers, n: int, start: int, end: int) -> Integers:
    """Vertices on a shortest path."""
    before = csgraph.breadth_first_order(_adjacency(edges, n), start, directed=False)[1]
    path = [int(end)]
    while path[-1] != start:
        path.append(int(before[path[-1]]))
    return np.array(path[::-1])


def _adjacency(edges: Integers, n: int) -> csr_array:
    return csr_array((np.ones(len(edges), np.int32), (edges[:, 0], edges[:, 1])), shape=(n, n))


def _core(pairs: Integers, n: int, c: int) -> Integers:
    """Pairs that are left after repeatedly removing vertices that are apart from fewer than c others.

    Such a vertex always has a free color, whatever the colors of the others.
    """
    kept = np.zeros(len(pairs), bool)
    while not kept.all():
        degree = np.bincount(pairs.ravel(), minlength=n)
        kept = np.all(degree[pairs] >= c, axis=1)
        pairs = pairs[kept]
    return pairs


def _uncolorable(pairs: Integers, n: int, c: int) -> Integers:
    """Vertices of the first connected component that is found to have no c-coloring; empty if there is none."""
    part = _components(pairs, n)[pairs[:, 0]]
    for number in np.unique(part):
        vertices, edges = np.unique(pairs[part == number], return_inverse=True)
        if colorable(edges.reshape(-1, 2), len(vertices), c, COLORING_STEPS) is False:
            return vertices
    return np.zeros(0, np.int64)


def distinct(pairs: Integers) -> Integers:
    """Each pair once, smaller end first, in ascending order.

    Parameters
    ----------
    pairs : ndarray of int64, shape (m, 2), not negative

    Returns
    -------
    pairs : ndarray of int64, shape (k, 2)
    """
    low, high = np.sort(pairs, axis=1).T
    base = int(high.max(initial=0)) + 1
    return np.stack(np.divmod(ascending(low * base + high), base), axis=1)


def ascending(values: Integers) -> Integers:
    """Distinct integers, ascending; on a million row numbers ten times as fast as np.unique, which hashes."""
    values = np.sort(values)
    return values[np.concatenate([[True], values[1:] > values[:-1]])] if len(values) else values
