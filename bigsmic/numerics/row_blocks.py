"""Row blocks of workers that keep state between calls, fixed summation trees, and exchange of halo rows.

An *actor* is an object on one worker that exists as long as its *group* and owns the rows of one :class:`Shard`, which
are consecutive row blocks. The results of its methods are summed over all blocks along a fixed tree, so that they do
not depend on the number of workers. In process there is one worker, which has all blocks.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bigsmic.types import Floats, Integers

MAX_TASKS = 256
"""Largest number of tasks that one map or reduction submits to a scheduler, whatever the number of blocks."""
LONGEST_RUN = 8
"""Largest number of blocks of a task, unless there are more than `MAX_TASKS` times as many: a worker that joins takes
none of those that others have begun."""


def stretches(n: int, most: int) -> Any:
    """Cut n terms into at most `most` stretches whose length is a power of two, so that each is a node of the tree."""
    length = 1
    while -(-n // length) > most:
        length *= 2
    return [range(lo, min(lo + length, n)) for lo in range(0, n, length)]


def shares(n: int, n_threads: int) -> list[range]:
    """Cut n blocks into runs, the first long and the last short, for threads that take one run after the other.

    A run is half of a thread's share of what is left, rounded up, and at most :data:`LONGEST_RUN`, so that there
    are few runs and the threads end at about the same time [1]_; and longer where there would be more runs than
    :data:`MAX_TASKS`.

    References
    ----------
    .. [1] Polychronopoulos and Kuck, "Guided self-scheduling: a practical scheduling scheme for parallel
       supercomputers", IEEE Transactions on Computers C-36, 1987. doi 10.1109/TC.1987.5009495
    """
    runs, lo, least = [], 0, -(-n // MAX_TASKS)
    while lo < n:
        hi = min(n, lo + max(least, min(LONGEST_RUN, -(-(n - lo) // (2 * n_threads)))))
        runs.append(range(lo, hi))
        lo = hi
    return runs


def tiles(n: int, height: int) -> list[slice]:
    """Cut n rows into slices of `height`; the last one may be shorter."""
    return [slice(lo, min(lo + height, n)) for lo in range(0, n, height)]


class TreeSum:
    """Sum along a binary tree over positions, whose shape depends only on their number.

    So floating-point sums have the same bits whichever worker computes the terms, in whatever order. The object holds
    as few terms as the tree allows; one worker can add a part of the terms and pass it on as a `TreeSum`.

    Parameters
    ----------
    n : int
        Number of terms.
    """

    def __init__(self, n: int) -> None:
        self.sizes = [n]
        while self.sizes[-1] > 1:
            self.sizes.append((self.sizes[-1] + 1) // 2)
        self.nodes: dict[tuple[int, int], Any] = {}

    def add(self, i: int, value: Any, level: int = 0) -> None:
        """Add term `i`, or the node `i` of a level above the terms."""
        while level < len(self.sizes) - 1:
            sibling = i ^ 1
            if sibling >= self.sizes[level]:  # a node without sibling moves up alone
                level, i = level + 1, i // 2
                continue
            if (level, sibling) not in self.nodes:
                break
            other = self.nodes.pop((level, sibling))
            value = value + other if i < sibling else other + value
            level, i = level + 1, i // 2
        self.nodes[level, i] = value

    def join(self, part: "TreeSum") -> None:
        """Add another worker's part of the same sum."""
        for (level, i), value in part.nodes.items():
            self.add(i, value, level)

    @property
    def complete(self) -> bool:
        """Whether all terms were added."""
        return (len(self.sizes) - 1, 0) in self.nodes

    def total(self) -> Any:
        """Return the sum; all terms must have been added."""
        (value,) = self.nodes.values()
        return value


def tree_sum(values: Sequence[Any]) -> Any:
    """Sum along the tree of :class:`TreeSum`."""
    tree = TreeSum(len(values))
    for i, value in enumerate(values):
        tree.add(i, value)
    return tree.total()


class Peers(Protocol):
    """Protocol by which a worker of a group communicates with the others.

    Attributes
    ----------
    number : int
        Of this worker.
    cuts : list of int
        Worker j has the row blocks ``cuts[j]:cuts[j + 1]``.
    """

    number: int
    cuts: list[int]

    def exchange(self, outgoing: dict[int, np.ndarray], senders: Sequence[int]) -> dict[int, np.ndarray]:
        """Send arrays to other workers, and return the arrays that the `senders` send to this one.

        All workers call it the same number of times, in the same order.
        """
        ...


class Shard:
    """The consecutive row blocks of one worker.

    Parameters
    ----------
    engine : Engine
        Of this worker.
    bounds : ndarray of int64, shape (n_blocks + 1,)
        Bounds of all row blocks.
    blocks : range
        Those of this shard.
    peers : Peers, optional
        The other workers; without it, this shard has all blocks.

    Attributes
    ----------
    scratch : Path or None
        Folder of this worker for files that last as long as the group; None for that of the run directory.
    """

    scratch: Path | None = None

    def __init__(self, engine: Any, bounds: Integers, blocks: range, peers: Peers | None = None) -> None:
        self.engine, self.bounds, self.blocks, self.peers = engine, np.asarray(bounds, np.int64), blocks, peers
        self.lo, self.hi = int(bounds[blocks.start]), int(bounds[blocks.stop])

    @property
    def whole(self) -> bool:
        """Whether this shard has all blocks."""
        return self.peers is None

    @property
    def n_rows(self) -> int:
        """Rows of this shard."""
        return self.hi - self.lo

    @property
    def own_bounds(self) -> Integers:
        """Bounds of the blocks of this shard, counted from its first row, shape (n_own + 1,)."""
        return self.bounds[self.blocks.start : self.blocks.stop + 1] - self.lo

    def rows(self, p: int) -> slice:
        """Rows of block p, counted from the first one of the shard."""
        return slice(int(self.bounds[p]) - self.lo, int(self.bounds[p + 1]) - self.lo)

    def positions(self, p: int) -> Integers:
        """Positions of the rows of block p."""
        return np.arange(self.bounds[p], self.bounds[p + 1])

    def for_each_block(self, task: Callable[[int], Any]) -> None:
        """Run `task` on every block of the shard."""
        self.engine.for_each(task, self.blocks)

    def sum_over_blocks(self, task: Callable[[int], Any]) -> Any:
        """Return the sum of ``task(p)`` over all blocks, or this shard's part of it: a `TreeSum`."""
        if self.whole:
            return self.engine.reduce(task, self.blocks)
        tree = TreeSum(len(self.bounds) - 1)
        for p, value in zip(self.blocks, self.engine.map(task, self.blocks), strict=True):
            tree.add(p, value)
        return tree

    def halo(self, read: Callable[[int], np.ndarray]) -> "Halo":
        """Rows of other shards that blocks of this shard refer to.

        Parameters
        ----------
        read : callable
            ``read(p)`` returns the positions outside block p that it refers to, ascending.
        """
        return Halo(self) if self.whole else _PeerHalo(self, read)


class Halo:
    """Rows outside a block, if one worker has all rows."""

    def __init__(self, shard: Shard) -> None:
        self.shard = shard

    def foreign(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return the rows of others that this worker needs, shape (h, ...); `x` are those of this worker."""
        return x[:0]

    def extend(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return the rows of this worker, then those of others that it needs, shape (n + h, ...)."""
        return x

    def local(self, p: int, halo: Integers) -> Integers:
        """Indices of the halo of block p among the rows of this worker and then those of others."""
        return halo

    def around(self, p: int, halo: Integers, extended: NDArray[Any]) -> NDArray[Any]:
        """Rows of block p and then those of its halo, of what `extend` returned."""
        return np.concatenate([extended[self.shard.rows(p)], extended[self.local(p, halo)]])


class _PeerHalo(Halo):
    """Rows outside a block, some on other workers: requested once, sent at every `extend`."""

    def __init__(self, shard: Shard, read: Callable[..., Any]) -> None:
        super().__init__(shard)
        peers: Any = shard.peers
        halos = {p: np.asarray(read(p), np.int64) for p in shard.blocks}
        touched = np.unique(np.concatenate([np.empty(0, np.int64), *halos.values()]))
        foreign = touched[(touched < shard.lo) | (touched >= shard.hi)]
        self._local = {p: self._find(halo, foreign) for p, halo in halos.items()}
        owners = np.searchsorted(shard.bounds[peers.cuts[1:-1]], foreign, side="right")
        wanted = {j: foreign[owners == j] for j in range(len(peers.cuts) - 1) if j != peers.number}
        asked = peers.exchange(wanted, sorted(wanted))
        self._lent = {j: positions - shard.lo for j, positions in asked.items() if len(positions)}
        self._lenders = [j for j in sorted(wanted) if len(wanted[j])]

    def _find(self, halo: Integers, foreign: Integers) -> Integers:
        inside = (halo >= self.shard.lo) & (halo < self.shard.hi)
        found = np.where(inside, halo - self.shard.lo, self.shard.n_rows + np.searchsorted(foreign, halo))
        return found.astype(np.int32 if self.shard.n_rows + len(foreign) < 2**31 else np.int64)

    def foreign(self, x: NDArray[Any]) -> NDArray[Any]:
        lent = {j: np.take(x, rows, axis=0) for j, rows in self._lent.items()}  # several times as fast as x[rows]
        peers: Any = self.shard.peers
        received = peers.exchange(lent, self._lenders)
        parts = [received[j] for j in self._lenders] or [x[:0]]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def extend(self, x: Floats) -> Floats:
        return np.concatenate([x, self.foreign(x)])

    def local(self, p: int, halo: Integers) -> Integers:
        return self._local[p]


class Group(Protocol):
    """The actors of all workers."""

    def call_sum(self, *calls: tuple[Any, ...]) -> Any:
        """Make calls ``(method, *arguments)`` one after the other on every actor, in one round.

        Returns
        -------
        total : Any
            Sum over all blocks of what the last call returns.
        """
        ...

    def call(self, *calls: tuple[Any, ...]) -> list[Any]:
        """Make calls; return what the last one returns, one value per worker."""
        ...


class LocalGroup:
    """A single actor, in this process.

    Parameters
    ----------
    actor : object
    """

    def __init__(self, actor: Any) -> None:
        self.actor = actor

    def call_sum(self, *calls: tuple[Any, ...]) -> Any:
        """Return what the last call returns."""
        return run_calls(self.actor, calls)

    def call(self, *calls: tuple[Any, ...]) -> list[None]:
        """Return what the last call returns, in a list."""
        return [run_calls(self.actor, calls)]


def close(actor: Any) -> None:
    """Close an actor, if it has such a method, which deletes its files."""
    getattr(actor, "close", lambda: None)()


def run_calls(actor: Any, calls: tuple[Any, ...]) -> Any:
    """Make calls ``(method, *arguments)`` on an actor; return what the last one returns."""
    value = None
    for method, *arguments in calls:
        value = getattr(actor, method)(*arguments)
    return value


def join_sums(parts: list[Any]) -> Any:
    """Total of the workers' partial sums; None if they return nothing."""
    first = parts[0]
    if not isinstance(first, TreeSum):
        return first
    for part in parts[1:]:
        first.join(part)
    return first.total()


def split_blocks(weights: Any, n_workers: int) -> list[int]:
    """Cut consecutive blocks into non-empty ranges of about equal weight.

    Parameters
    ----------
    weights : array_like of int, shape (n_blocks,)
    n_workers : int

    Returns
    -------
    cuts : list of int, length min(n_workers, n_blocks) + 1
    """
    n_blocks = len(weights)
    n_workers = min(n_workers, n_blocks)
    ends = np.cumsum(weights)
    cuts = np.searchsorted(ends, ends[-1] * np.arange(1, n_workers) / n_workers) + 1
    for j in range(len(cuts)):  # at least one block each
        cuts[j] = min(max(cuts[j], (cuts[j - 1] if j else 0) + 1), n_blocks - (n_workers - 1 - j))
    return [0, *(int(cut) for cut in cuts), n_blocks]
