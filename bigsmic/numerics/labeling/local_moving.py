"""Local moving: parallel sweeps in which rows move to the cluster of largest gain in modularity.

Functions take one block of rows; :class:`RowMoves` holds the labels of one shard, and :func:`local_moves` makes the
sweeps over a group of such actors, which exchange only labels of halo rows and sums per cluster.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.compiled import compiled
from bigsmic.numerics.graph.affinity import KernelBlock
from bigsmic.numerics.hashing import row_uniform
from bigsmic.numerics.row_blocks import Shard
from bigsmic.types import Floats, Integers

N_SWEEPS = 10
MOVABLE_SHARE = 0.5  # of the rows in one sweep; less than 1, so that neighbours do not swap labels forever


def local_moves(group: Any, resolutions: Sequence[float | None] = (1.0,), n_sweeps: int = N_SWEEPS) -> None:
    """Move the rows of a group of :class:`RowMoves`, or of actors with its methods, under all labelings at once.

    In every sweep half of the rows, drawn by hash, may move, all at once. No cluster is emptied: if all rows of one
    would leave, its smallest row stays.

    Parameters
    ----------
    group : bigsmic.numerics.row_blocks.Group
    resolutions : sequence of float or None
        That of `move_block` for each labeling; None for one whose rows stay.
    n_sweeps : int
    """
    sums = group.call_sum(("label_sums",))
    for sweep in range(n_sweeps):
        counts = sums[0]
        sums = group.call_sum(("move", sweep, sums, resolutions))
        if np.any((counts > 0) & (sums[0] == 0)):
            firsts = reduce(earlier, group.call(("first_members",)))
            *undone, sums = undo_emptied(counts, sums, firsts)
            group.call(("send_back", *undone))


def resolution_of(volumes: Floats) -> float:
    """Resolution with which rows move between clusters that valleys separate.

    With 1, a row leaves a cluster of share f of all degrees for a small one if a share ``(1 - f) / 2`` of its weight
    lies in that: of a cluster with most of the rows, a single edge in ten draws rows into a far one, and these draw
    others. So it is ``2 (1 - f)``, at most 1, with f the share of the largest cluster.

    Parameters
    ----------
    volumes : ndarray of float64, shape (c,)
        Degree sum of each cluster.
    """
    return min(
        1.0, 2.0 * (1.0 - float(volumes.max(initial=0.0)) / max(float(volumes.sum()), np.finfo(np.float64).tiny))
    )


class RowMoves:
    """Labels of the rows of one shard under some labelings of one graph, during local moving.

    All labelings are moved in the same rounds: a sweep reads every block of the kernel once, and sends as few messages
    as for one labeling. Sums, and rows to send back, are of all labelings, and their labels are *numbered through*:
    those of a labeling follow those of the one before it.

    Parameters
    ----------
    shard : bigsmic.numerics.row_blocks.Shard
    load_block : callable
        ``load_block(p)`` returns row block p of W, the kernel before normalisation.
    degrees : ndarray of float64, shape (n,)
        Row sums of W, for the rows of the shard.
    rows : ndarray of int64, shape (n,)
        Global row numbers of these.
    seed : int
        Seed of the draw of the rows that may move in a sweep.

    Attributes
    ----------
    labels : ndarray of int, shape (n, L)
        Of each labeling from 0, of the narrowest signed type.
    """

    def __init__(
        self, shard: Shard, load_block: Callable[..., Any], degrees: Floats, rows: Integers, seed: int = 0
    ) -> None:
        self.shard, self.load_block, self.seed = shard, load_block, seed
        self.degrees, self.row_numbers = degrees, rows
        self.halo = shard.halo(lambda p: load_block(p).halo)

    def start(self, labels: Iterable[Integers], n_clusters: Sequence[int]) -> None:
        """Begin with the labels of the shard's rows, int32, shape (n,), of each labeling."""
        self.labels = np.empty((self.shard.n_rows, len(n_clusters)), np.min_scalar_type(-max(n_clusters)))
        for i, of_one in enumerate(labels):
            self.labels[:, i] = of_one
        self.before = self.labels
        self.first_labels: Integers = np.concatenate([[0], np.cumsum(n_clusters)])

    @property
    def n_clusters(self) -> Integers:
        """Labels of each labeling."""
        return np.diff(self.first_labels)

    def of_labeling(self, i: int) -> slice:
        """Labels of labeling i, numbered through."""
        return slice(int(self.first_labels[i]), int(self.first_labels[i + 1]))

    def label_sums(self) -> Floats:
        """Rows and degree sums per label, shape (2, labels numbered through); a subclass may add rows."""
        return self.shard.sum_over_blocks(self._label_sums)

    def move(self, sweep: int, sums: Floats, resolutions: Sequence[float | None]) -> Floats:
        """Make one sweep, given `label_sums` before it; return those after it."""
        self.before, self.labels = self.labels, self.labels.copy()
        extended = self.halo.extend(self.before)
        moving = [(i, resolution) for i, resolution in enumerate(resolutions) if resolution is not None]

        def task(p: int) -> Floats:
            block, own = self.load_block(p), self.shard.rows(p)
            known = self.halo.around(p, block.halo, extended)
            movable = row_uniform(self.seed, f"moves/{sweep}", self.row_numbers[own]) < MOVABLE_SHARE
            for i, resolution in moving:
                before = np.ascontiguousarray(known[:, i], np.int32)
                self.labels[own, i] = self._moved(p, block, before, movable, sums[:, self.of_labeling(i)], resolution)
            return self._label_sums(p)

        return self.shard.sum_over_blocks(task)

    def _moved(
        self, p: int, block: KernelBlock, known: Integers, movable: NDArray[np.bool_], sums: Floats, resolution: float
    ) -> Integers:
        """Labels of one block after a sweep of a labeling; `known` are those of its rows and of its halo before."""
        return move_block(block, known, self.degrees[self.shard.rows(p)], sums[1], movable, resolution)

    def first_members(self) -> Floats:
        """Smallest row of each cluster before the last sweep, labels numbered through; see :func:`first_members`."""
        found = []
        for i, c in enumerate(self.n_clusters.tolist()):
            of_one = first_members(self.row_numbers, self.before[:, i], self.labels[:, i], self.degrees, c)
            of_one[:, 1] += self.first_labels[i]
            found.append(of_one)
        return np.concatenate(found)

    def send_back(self, rows: Integers, labels: Integers) -> None:
        """Give rows, by number, the labels that they had, numbered through."""
        labeling = np.searchsorted(self.first_labels, labels, side="right") - 1
        for i in np.unique(labeling).tolist():
            undone = rows[labeling == i], labels[labeling == i] - self.first_labels[i]
            self.labels[:, i] = send_back(self.labels[:, i], self.row_numbers, undone)

    def _label_sums(self, p: int) -> Floats:
        own = self.shard.rows(p)
        degrees, sizes = self.degrees[own], self.n_clusters.tolist()
        return np.hstack([label_sums(self.labels[own, i], degrees, c) for i, c in enumerate(sizes)])


def label_sums(labels: Integers, degrees: Floats, n_clusters: int) -> Floats:
    """Row counts and degree sums per label, over one block.

    Parameters
    ----------
    labels : ndarray of int, shape (b,)
    degrees : ndarray of float, shape (b,)
    n_clusters : int

    Returns
    -------
    sums : ndarray of float64, shape (2, c)
        Counts and volumes; add over blocks.
    """
    volumes = np.bincount(labels, weights=degrees, minlength=n_clusters)
    return np.stack([np.bincount(labels, minlength=n_clusters).astype(np.float64), volumes])


def move_block(
    block: KernelBlock,
    labels: Integers,
    degrees: Floats,
    volumes: Floats,
    movable: NDArray[np.bool_],
    resolution: float = 1.0,
) -> Integers:
    """Move each movable row to the cluster that raises modularity most, all at once.

    Row i goes to ``argmax_y [ sum_{j: l_j = y} W_ij - g d_i s_y / vol ]``, with s_y the degree sum of y without i
    [1]_ and g the resolution.

    Parameters
    ----------
    block : KernelBlock
        Rows of W, the kernel before normalisation. Entries of a row with itself are not counted.
    labels : ndarray of int32, shape (b + h,)
        Labels before the sweep, of the block's own rows and then of its halo.
    degrees : ndarray of float, shape (b,)
        Row sums of W.
    volumes : ndarray of float64, shape (c,)
        Degree sum of each label before the sweep, over all rows.
    movable : ndarray of bool, shape (b,)
    resolution : float
        1 favours clusters of even size, which prevents small, weakly connected groups from remaining clusters. With 0,
        rows move to the cluster with most of their weight.

    Returns
    -------
    labels : ndarray of int32, shape (b,)
        A row stays unless another cluster is strictly better; the smallest label among equals.

    References
    ----------
    .. [1] Newman, "Modularity and community structure in networks", PNAS 103 (2006).
       doi:10.1073/pnas.0601602103
    """
    moved = labels[: block.hi - block.lo].astype(np.int32)
    rows = np.flatnonzero(movable)
    shares = resolution * np.asarray(degrees, dtype=np.float64) / max(float(volumes.sum()), np.finfo(np.float64).tiny)
    _best_labels(block[3:], np.asarray(labels, dtype=np.int32), rows, (shares, degrees), volumes, moved)
    return moved


@compiled
def _best_labels(
    csr: tuple[Integers, Integers, Floats],
    labels: Integers,
    rows: Integers,
    degrees: tuple[Floats, Floats],
    volumes: Floats,
    moved: Integers,
) -> None:
    """Write to ``moved[i]``, i of `rows`, the label of largest gain, if it is larger than that of ``labels[i]``.

    `csr` is ``indptr (b + 1,), indices, data (entries,)``, `labels` (b + h,), `degrees` is ``shares (b,), degree (b,)``
    with ``shares = g degree / vol``, and `volumes` (c,); see :func:`move_block`. A label that no neighbour has gains
    0 at most, so unless the row's own label gains less, only those of neighbours are compared with it.
    """
    indptr, indices, data = csr
    shares, degree = degrees
    gains, near, seen = np.empty(len(volumes)), np.empty(len(volumes), np.int64), np.full(len(volumes), -1)
    for i in rows:
        own = labels[i]
        near[0], seen[own], n_near = own, i, 1
        gain = shares[i] * degree[i] - shares[i] * volumes[own]
        for entry in range(indptr[i], indptr[i + 1]):
            y = labels[indices[entry]]
            if y == own:
                gain += data[entry] if indices[entry] != i else 0.0
            else:
                if seen[y] != i:
                    near[n_near], n_near = y, n_near + 1
                    gains[y], seen[y] = -shares[i] * volumes[y], i
                gains[y] += data[entry]
        if gain < 0.0:  # even labels that no neighbour has may be better
            for y in range(len(volumes)):
                if seen[y] != i:
                    near[n_near], n_near = y, n_near + 1
                    gains[y] = -shares[i] * volumes[y]
        gains[own], best = gain, own
        for place in range(1, n_near):
            y = near[place]
            if gains[y] > gains[best] or (gains[y] == gains[best] and y < best and best != own):
                best = y
        moved[i] = best


def first_members(rows: Integers, before: Integers, after: Integers, degrees: Floats, n_clusters: int) -> Floats:
    """Find the smallest row of each cluster before a sweep, over one block, and its label after it.

    Parameters
    ----------
    rows : ndarray of int, shape (b,)
        Global row numbers.
    before, after : ndarray of int, shape (b,)
        Labels before and after the sweep.
    degrees : ndarray of float, shape (b,)
    n_clusters : int

    Returns
    -------
    firsts : ndarray of float64, shape (c, 3)
        Row, its label after, its degree; the row is infinite for clusters without rows in the block. Combine blocks
        with `earlier`.
    """
    firsts = np.full((n_clusters, 3), np.inf)
    order = np.argsort(rows, kind="stable")
    present, place = np.unique(before[order], return_index=True)
    chosen = order[place]
    firsts[present] = np.column_stack([rows[chosen], after[chosen], degrees[chosen]])
    return firsts


def earlier(firsts: Floats, others: Floats) -> Floats:
    """Keep the smaller row of two blocks, cluster by cluster; arguments and result as in `first_members`."""
    return np.where(firsts[:, :1] <= others[:, :1], firsts, others)


def undo_emptied(counts_before: Floats, sums: Floats, firsts: Floats) -> tuple[Integers, Integers, Floats]:
    """Rows to send back so that no cluster is emptied: the smallest row of each emptied cluster.

    Parameters
    ----------
    counts_before : ndarray of float64, shape (c,)
        Rows per cluster before the sweep.
    sums : ndarray of float64, shape (2 or more, c)
        `label_sums` after it.
    firsts : ndarray of float64, shape (c, 3)
        `first_members` of all rows.

    Returns
    -------
    rows : ndarray of int64, shape (u,)
    labels : ndarray of int32, shape (u,)
        Their former labels.
    sums : ndarray of float64, shape (2 or more, c)
        `label_sums` after they are sent back; only the first two rows are updated.
    """
    sums, back = sums.copy(), []
    # sending a row back can empty the cluster to which it had moved
    while len(emptied := np.flatnonzero((counts_before > 0) & (sums[0] == 0))):
        y = int(emptied[0])
        row, gone_to, degree = firsts[y]
        sums[:2, int(gone_to)] -= 1.0, degree
        sums[:2, y] += 1.0, degree
        back.append((int(row), y))
    rows, labels = np.array(back, dtype=np.int64).reshape(-1, 2).T
    return rows, labels.astype(np.int32), sums


def send_back(labels: Integers, rows: Integers, undone: tuple[Integers, Integers]) -> Integers:
    """Labels of one block after the rows of `undo_emptied` are sent back.

    Parameters
    ----------
    labels : ndarray of int, shape (b,)
    rows : ndarray of int, shape (b,)
        Global row numbers.
    undone : tuple of ndarray
        Rows and labels, as `undo_emptied` returns them.

    Returns
    -------
    labels : ndarray, shape (b,), of the same dtype
    """
    labels = labels.copy()
    for row, label in zip(*undone, strict=True):
        labels[rows == row] = label
    return labels


# -- modularity


def modularity_sums(block: KernelBlock, labels: Integers, n_clusters: int) -> Floats:
    """Weight inside each cluster, and its degree sum, over one block of rows.

    Parameters
    ----------
    block : KernelBlock
        Rows of W, the kernel before normalisation.
    labels : ndarray of int, shape (b + h,)
        Labels of the block's own rows and then of its halo.
    n_clusters : int

    Returns
    -------
    sums : ndarray of float64, shape (2, c)
        Add over blocks for `modularity`.
    """
    sums = np.zeros((2, n_clusters))
    _weights_inside(block.indptr, block.indices, block.data, np.asarray(labels, dtype=np.int32), sums)
    return sums


@compiled
def _weights_inside(indptr: Integers, indices: Integers, data: Floats, labels: Integers, sums: Floats) -> None:
    """Add to ``sums[0, y]`` the weight inside cluster y, and to ``sums[1, y]`` its degree sum.

    `indptr` (b + 1,), `indices` and `data` (entries,), `labels` (b + h,), `sums` (2, c).
    """
    for i in range(len(indptr) - 1):
        y = labels[i]
        for entry in range(indptr[i], indptr[i + 1]):
            sums[1, y] += data[entry]
            if labels[indices[entry]] == y:
                sums[0, y] += data[entry]


def modularity(sums: Floats) -> float:
    """Share of the weight inside clusters, minus the expected share for random edges of the same degrees.

    ``sum_y [ w_y / vol - (s_y / vol)^2 ]``, the quantity that `move_block` raises.

    Parameters
    ----------
    sums : ndarray of float64, shape (2, c)
        Total of `modularity_sums`.

    Returns
    -------
    float
        At most 1; 0 for a graph without weight.

    Notes
    -----
    At a given number of clusters it distinguishes labelings that split a large cluster and join small ones from those
    that do not. So it can choose how far to over-segment: more columns help clusters of even size and harm those of
    skewed sizes.
    """
    inside, volumes = sums
    total = volumes.sum()
    return float(inside.sum() / total - np.square(volumes / total).sum()) if total > 0.0 else 0.0


def normalized_association(sums: Floats) -> float:
    """Mean over clusters of the share of the rows' weight that is inside the cluster: ``mean_y w_y / s_y``.

    It is one minus the normalised cut over c (Shi and Malik, IEEE TPAMI 22, 2000). It does not prefer clusters of even
    size, but favours stray rows as clusters if no other groups are separate.

    Parameters
    ----------
    sums : ndarray of float64, shape (2, c)
        Total of `modularity_sums`.

    Returns
    -------
    float
        At most 1; clusters without weight count as 0.
    """
    inside, volumes = sums
    return float(np.mean(inside / np.where(volumes > 0.0, volumes, 1.0)))
