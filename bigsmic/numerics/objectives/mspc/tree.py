"""More than two clusters: a tree of splits, grown one split at a time."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Self

import numpy as np
from scipy.special import expit

from bigsmic.errors import InputError
from bigsmic.numerics.objectives.mspc.questions import Halfspace, Node, Total, solve
from bigsmic.numerics.objectives.mspc.solvers import Split, SplitSettings, split
from bigsmic.types import Floats, Integers


class Tree(NamedTuple):
    """Splits one after the other: the s-th takes the rows inside its halfspace from label ``of[s]`` to label s + 1.

    Parameters
    ----------
    w : ndarray of float64, shape (c - 1, d)
    threshold, slope : ndarray of float64, shape (c - 1,)
    of : ndarray of int64, shape (c - 1,)
    """

    w: np.ndarray
    threshold: np.ndarray
    slope: np.ndarray
    of: np.ndarray

    @classmethod
    def of_splits(cls, taken: list[tuple[int, Split]]) -> "Tree":
        """Tree from pairs of a label and the split applied to it; at least one pair."""
        splits = [found for _, found in taken]
        return cls(
            np.array([found.halfspace.w for found in splits]),
            np.array([found.halfspace.threshold for found in splits]),
            np.array([found.slope for found in splits]),
            np.array([y for y, _ in taken]),
        )

    @classmethod
    def single(cls, d: int) -> Self:
        """Tree of one cluster."""
        return cls(np.empty((0, d)), np.empty(0), np.empty(0), np.empty(0, np.int64))

    @property
    def n_clusters(self) -> int:
        """Number of clusters, c."""
        return len(self.of) + 1

    def read(self, X: Floats) -> tuple[Floats, Integers]:
        """Posteriors and labels of rows.

        The posterior of a split is logistic in the projection, 1/2 at the hyperplane, with the slope for two normal
        clusters of equal variance. That of a cluster is the product along its path.

        Parameters
        ----------
        X : ndarray of float, shape (b, d)

        Returns
        -------
        posterior : ndarray of float32, shape (b, c)
        labels : ndarray of int32, shape (b,)
        """
        X = X.astype(np.float64)
        labels, posterior = np.zeros(len(X), np.int32), np.zeros((len(X), self.n_clusters))
        posterior[:, 0] = 1
        for s, (w, threshold, slope, y) in enumerate(zip(*self, strict=True)):
            margin = X @ w - threshold
            labels[(labels == y) & (margin > 0)] = s + 1
            share = expit(slope * margin)
            posterior[:, s + 1] = posterior[:, y] * share
            posterior[:, y] *= 1 - share
        return posterior.astype(np.float32), labels


def grow(
    n_clusters: int, start: Callable[[Node], Halfspace | None], candidates: Sequence[SplitSettings], total: Total
) -> tuple[Tree, list[Split]]:
    """Split repeatedly the cluster whose split is worth most, until there are enough clusters.

    The worth is the score times the number of rows; the score alone would favour ever smaller groups.

    Parameters
    ----------
    n_clusters : int
        At least 2.
    start : callable
        ``start(node)``: first labeling of a node.
    candidates : sequence of SplitSettings
        At each node the one of largest score is used.
    total : callable
        See :func:`solve`.

    Returns
    -------
    tree : Tree
    splits : list of Split
        The splits of the tree.

    Raises
    ------
    InputError
        No cluster can be split any further.
    """
    return grow_by(n_clusters, lambda nodes: _best_splits(nodes, start, candidates, total))


def grow_by(
    n_clusters: int, best_splits: Callable[[Mapping[int, Node]], Mapping[int, Split]]
) -> tuple[Tree, list[Split]]:
    """Grow a tree like :func:`grow`, with splits found by any function.

    Parameters
    ----------
    n_clusters : int
    best_splits : callable
        Returns the best splits of nodes by their number; nodes that cannot be split are left out.

    Returns
    -------
    tree : Tree
    splits : list of Split

    Raises
    ------
    InputError
        No cluster can be split any further.
    """
    nodes: list[Node] = [()]
    possible: dict[int, Split] = {}
    taken: list[tuple[int, Split]] = []
    fresh = [0]
    while len(nodes) < n_clusters:
        possible |= best_splits({y: nodes[y] for y in fresh})
        if not possible:
            raise InputError(
                f"mspc: n_clusters={n_clusters}, but the rows of each of the {len(nodes)} clusters found coincide; "
                f"ask for {len(nodes)}"
            )
        y = max(possible, key=lambda y: (possible[y].worth, -y))
        best = possible.pop(y)
        taken.append((y, best))
        nodes.append((*nodes[y], (best.halfspace, True)))
        nodes[y] = (*nodes[y], (best.halfspace, False))
        fresh = [y, len(nodes) - 1]
    return Tree.of_splits(taken), [found for _, found in taken]


def _best_splits(
    nodes: Mapping[int, Node],
    start: Callable[[Node], Halfspace | None],
    candidates: Sequence[SplitSettings],
    total: Total,
) -> dict[int, Split]:
    """The split of largest score of each node that can be split, all found in the same passes."""
    owners = [y for y in nodes for _ in candidates]
    starts = {y: start(node) for y, node in nodes.items()}
    problems = [split(node, starts[y], settings) for y, node in nodes.items() for settings in candidates]
    found = list(zip(owners, solve(problems, total), strict=True))
    best = {y: best_of([split for owner, split in found if owner == y]) for y in nodes}
    return {y: split for y, split in best.items() if split is not None}


def best_of(splits: Sequence[Split | None]) -> Split | None:
    """The split of largest score, the first among equals; None if no candidate found one."""
    return max((split for split in splits if split is not None), key=lambda split: split.score, default=None)
