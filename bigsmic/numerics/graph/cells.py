"""Cells: a partition of space into small k-means cells, learnt from a sample, and the cells of every row.

Cells are found in two levels, coarse cells first, so that routing costs about the square root of a full search. They
are numbered so that near cells have near numbers, and packed in that order into groups, each of which fits in memory.

A row is *at home* in its nearest cell and *visits* the cells whose border is near. Between cells a and b the border
is the hyperplane half way between their centroids, and a row x of a lies

    (|x - c_b|^2 - |x - c_a|^2) / (2 |c_b - c_a|)

from the border, so that no row of b is nearer to x than that. The search compares every row with the residents of its
own cell and of the cells that it visits: two near rows are missed only if both are far from the border between them.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigsmic.errors import InputError
from bigsmic.numerics.compiled import compiled, compiled_sum
from bigsmic.numerics.frozen import frozen
from bigsmic.numerics.hashing import generator, row_hash
from bigsmic.numerics.products import product, self_product
from bigsmic.types import Floats, Integers

ROW_BYTES = 64 << 20
"""float32 bytes of the rows of one group, home rows and visitors, at most."""
GROUP_BYTES = 88 << 20
"""Bytes of all that one group holds, or 88 for each row of the whole: no more than a process holds of all rows."""
MEMBER_BYTES = 1152
"""Of a member beside its features: candidates, lists and edges of 20 neighbours, and its rows of eigenvectors."""

N_SHARED_OUT = 8  # least number of groups, for threads and workers
LEAST_SHARED_OUT = 32_768  # rows of a group; smaller groups cost more than parallel work saves
_MIN_SAMPLE = 10  # sampled rows that a cell must have, on average, for a useful centroid
_ALWAYS = 2  # cells that a row belongs to whatever the margin, as a tiny cell alone has too few neighbours
_FLAT = 96  # number of cells up to which a second level saves no time
_BEAM = 8  # coarse cells searched: 12 find the same neighbours, 4 cost .003 of recall
_LLOYD_STEPS = 6
_BLOCK_BYTES = 16 << 20


@dataclass(frozen=True)
class PartitionSettings:
    """Parameters of the partition into cells.

    Parameters
    ----------
    n_rows : int
        Rows of the whole data, of which the sample is a part.
    seed : int
    cell_rows : int
        Rows at home in a cell on average, if the sample is large enough for so many cells.
    overlap : int
        Cells that a row belongs to at most, its home included.
    candidates : int
        Residents that a row is compared with on average; the margin around borders follows from it. 0 stands for
        ``5.5 sqrt(n_rows)``, at least 1,000, at most three quarters of what `overlap` cells hold.
    group_rows : int
        Rows of a group at most, visitors included, as expected from the sample. See :func:`group_rows`.

    Raises
    ------
    InputError
        A value below 1, candidates below 0.
    """

    n_rows: int
    seed: int = 0
    cell_rows: int = 320
    overlap: int = 16
    candidates: int = 0
    group_rows: int = 100_000

    def __post_init__(self) -> None:
        for name, least in {"n_rows": 1, "cell_rows": 1, "overlap": 1, "candidates": 0, "group_rows": 1}.items():
            if getattr(self, name) < least:
                raise InputError(f"partition: got {name}={getattr(self, name)}; use at least {least}")
        if self.candidates == 0:
            most = max(1000, 3 * self.overlap * self.cell_rows // 4)
            object.__setattr__(self, "candidates", min(max(1000, round(5.5 * math.sqrt(self.n_rows))), most))


@dataclass(frozen=True)
class Cells:
    """A partition of space.

    Points that occur so often that k-means cannot split them have several cells, *twins*, at the same centroid; a
    row goes to one of them by hash. A *site* is a centroid, with its one cell or its twins.

    Parameters
    ----------
    sites : ndarray of float32, shape (s, d)
    first : ndarray of int64, shape (s + 1,)
        Site i consists of the cells ``first[i]:first[i + 1]``.
    coarse : ndarray of float32, shape (a, d)
    bounds : ndarray of int64, shape (a + 1,)
        Coarse cell i holds the sites ``bounds[i]:bounds[i + 1]``.
    group : ndarray of int32, shape (n_cells,), ascending
        Group of every cell.
    margin : ndarray of float64, shape ()
        A row no further than this from a border visits the cell beyond it.
    seed : ndarray of int64, shape ()
        Seed of the choice among twins.
    """

    sites: np.ndarray
    first: np.ndarray
    coarse: np.ndarray
    bounds: np.ndarray
    group: np.ndarray
    margin: np.ndarray
    seed: np.ndarray

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return int(self.first[-1])

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return int(self.group[-1]) + 1

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the fields as a dict of plain arrays."""
        return dict(vars(self))

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> "Cells":
        """Return the cells whose `to_arrays` gave the arrays."""
        return cls(**{name: np.asarray(array) for name, array in arrays.items()})


def group_rows(n: int, d: int) -> int:
    """Rows of a group: as many as fill `GROUP_BYTES`, or fewer, so that there are groups to share out.

    Parameters
    ----------
    n : int
        Rows of the whole data.
    d : int
        Columns.

    Returns
    -------
    rows : int
        From 4,096 to 200,000.
    """
    shared_out = max(2 * n // N_SHARED_OUT, LEAST_SHARED_OUT)  # twice, as visitors about double the rows
    held = max(GROUP_BYTES, 88 * n) // (4 * d + MEMBER_BYTES)
    return min(max(min(ROW_BYTES // (4 * d), held), 4096), shared_out, 200_000)


def build_cells(sample: Floats, settings: PartitionSettings) -> Cells:
    """Learn cells from a sample of the rows.

    Parameters
    ----------
    sample : ndarray of float32, shape (m, d)
        Rows drawn at random. Thirty per cell are plenty; with fifteen, recall is .01 lower.
    settings : PartitionSettings

    Returns
    -------
    cells : Cells
        About ``n_rows / cell_rows`` of them, fewer if the sample has fewer than ten rows for each.

    Raises
    ------
    InputError
        The sample has no rows.

    Notes
    -----
    Memory: the sample once more, and a block of `_BLOCK_BYTES`. Lloyd's algorithm from random rows, six steps, GEMM on
    the threads that BLAS is given: with one thread the cells are a function of sample and settings.
    """
    if len(sample) == 0:
        raise InputError("cells: got a sample of 0 rows; draw at least 1")
    target = max(len(sample) * settings.cell_rows / settings.n_rows, min(_MIN_SAMPLE, settings.cell_rows))
    coarse, sites, copies, bounds = _two_levels(sample, target, generator(settings.seed, "cells"))
    first = np.concatenate([[0], np.cumsum(copies)])
    alone = Cells(sites, first, coarse, bounds, np.zeros(1, np.int32), np.array(np.inf), np.array(settings.seed))
    near, score = _nearest_sites(sample, alone, settings.overlap)
    scale = settings.n_rows / len(sample)
    margin = _margin(near, _border_distance(near, score, frozen(sites)), copies, settings.candidates / scale)
    located = Cells.from_arrays(alone.to_arrays() | {"margin": np.array(margin)})
    member_cells = route(sample, np.arange(len(sample)), located, settings.overlap)
    group = _pack(member_cells, located.n_cells, settings.group_rows / scale)
    return Cells.from_arrays(located.to_arrays() | {"group": group})


def route(X: Floats, rows: Integers, cells: Cells, r: int) -> Integers:
    """Find the cells that rows belong to: home first, then those visited, nearest first.

    Parameters
    ----------
    X : ndarray of float32, shape (b, d)
    rows : ndarray of int64, shape (b,)
        Global row numbers; they choose among twins.
    cells : Cells
    r : int
        Cells of a row at most.

    Returns
    -------
    member_cells : ndarray of int32, shape (b, r)
        For rows that visit fewer than ``r - 1`` cells, the home is repeated in the remaining places.

    Notes
    -----
    Cells are searched in the `_BEAM` nearest coarse cells only. Memory: :func:`route_bytes`.
    """
    member_cells = np.empty((len(X), r), np.int32)
    for lo, hi in _blocks(len(X), X.shape[1]):
        near, score = _nearest_sites(X[lo:hi], cells, r)
        beyond = _border_distance(near, score, frozen(cells.sites)) > cells.margin
        beyond[:, :_ALWAYS] = False
        near = np.where(beyond, near[:, :1], near)
        member_cells[lo:hi, : near.shape[1]] = _among_twins(near, rows[lo:hi], cells)
    member_cells[:, near.shape[1] :] = member_cells[:, :1]
    return member_cells


def probe(X: Floats, cells: Cells, n_probe: int = 24) -> Integers:
    """Find the cells with whose residents a new row is compared: the nearest, without regard to borders.

    Parameters
    ----------
    X : ndarray of float32, shape (b, d)
    cells : Cells
    n_probe : int
        24 cells of 320 rows find .97 of the 10 nearest of 319,209 simulated tetrode spikes.

    Returns
    -------
    probes : ndarray of int32, shape (b, min(n_probe, number of sites))
        Nearest first; for twins the first.
    """
    probes = [cells.first[_nearest_sites(X[lo:hi], cells, n_probe)[0]] for lo, hi in _blocks(*X.shape)]
    return np.concatenate(probes).astype(np.int32)


def route_bytes(n_rows: int, d: int, n_cells: int, r: int) -> int:
    """Predict the memory of :func:`route` for a block of `n_rows`, beside its input, in bytes."""
    block = min(n_rows, _block_rows(d))
    return 4 * (n_rows * r + n_cells * d + block * (d + max(2 * math.isqrt(n_cells), _FLAT) + 8 * r + 6 * _BEAM))


def _two_levels(sample: Floats, target: float, rng: np.random.Generator) -> tuple[Floats, Floats, Integers, Integers]:
    """Coarse cells, sites, their numbers of twins, and bounds of coarse cells, ordered so that near cells are near."""
    n_sites = max(1, round(len(sample) / target))
    n_coarse = 1 if n_sites <= _FLAT else math.isqrt(n_sites)
    labels = _lloyd(sample, n_coarse, rng)
    coarse = _means(sample, labels)
    order = _chain(coarse)
    leaves = [_split(sample[labels == a], target, rng) for a in order]
    leaves = [(sites[at], copies[at]) for sites, copies in leaves for at in [_chain(sites)]]
    bounds = np.concatenate([[0], np.cumsum([len(sites) for sites, _ in leaves])])
    sites, copies = (np.concatenate(parts) for parts in zip(*leaves, strict=True))
    return coarse[order], sites, copies, bounds


def _split(points: Floats, target: float, rng: np.random.Generator) -> tuple[Floats, Integers]:
    """Sites with at most twice `target` points each unless the points coincide, and the number of twins of each."""
    if len(points) <= 2 * target:
        return _means(points, np.zeros(len(points), np.int64)), np.ones(1, np.int64)
    if (points == points[0]).all():
        return points[:1], np.array([math.ceil(len(points) / target)])
    labels = _lloyd(points, math.ceil(len(points) / target), rng)
    if labels.max() == 0:
        labels = _halve(points)
    parts = [_split(points[labels == i], target, rng) for i in range(labels.max() + 1)]
    sites, copies = (np.concatenate(side) for side in zip(*parts, strict=True))
    return sites, copies


def _halve(points: Floats) -> Integers:
    """Split points that do not all coincide into two non-empty parts: near the first one, and near the furthest one."""
    away = np.square(points - points[0]).sum(axis=1)
    furthest = np.square(points - points[away.argmax()]).sum(axis=1)
    return (furthest < away).astype(np.int64)


def _lloyd(points: Floats, k: int, rng: np.random.Generator) -> Integers:
    """k-means labels, numbered without gaps."""
    centroids = points[np.sort(rng.choice(len(points), min(k, len(points)), replace=False))]
    for _ in range(_LLOYD_STEPS):
        labels = np.concatenate([_nearest(points[lo:hi], centroids) for lo, hi in _blocks(len(points), len(centroids))])
        labels = np.unique(labels, return_inverse=True)[1]
        if len(centroids) == 1:
            break
        centroids = _means(points, labels)
    return labels


def _nearest(points: Floats, centroids: Floats) -> Integers:
    norms = np.einsum("ij,ij->i", centroids, centroids)
    return (product(points, -2 * centroids.T) + norms).argmin(axis=1)


def _means(points: Floats, labels: Integers) -> Floats:
    """Mean of the points of every label 0..max, summed in float64 in the order of the points."""
    counts = np.bincount(labels)
    sums = np.zeros((len(counts), points.shape[1]))
    _add_rows(frozen(points), frozen(labels), sums)
    return (sums / counts[:, None]).astype(np.float32)


@compiled
def _add_rows(points: Any, labels: Any, sums: Floats) -> None:
    """Add the points (m, d) of every label (m,) to its row of `sums` (k, d)."""
    for i in range(len(points)):
        for p in range(points.shape[1]):
            sums[labels[i], p] += points[i, p]


def _chain(points: Floats) -> Integers:
    """Order points so that each is followed by its nearest remaining one, from one end of the longest direction."""
    centred = points - points.mean(axis=0)
    coordinates = np.linalg.eigh(self_product(centred.T))[1][:, -1]
    norms = np.einsum("ij,ij->i", centred, centred)
    order = np.empty(len(points), np.int64)
    order[0] = np.abs(coordinates).argmax()
    for i in range(1, len(points)):
        last = order[i - 1]
        distance = norms - 2 * product(centred, centred[last])
        distance[order[:i]] = np.inf
        order[i] = distance.argmin()
    return order


def _nearest_sites(X: Floats, cells: Cells, r: int) -> tuple[Integers, Floats]:
    """The r nearest sites of every row, and ``|site|^2 - 2 x . site``, nearest first, each of shape (b, r)."""
    beam, n_coarse = min(_BEAM, len(cells.coarse)), len(cells.coarse)
    near, score = _empty_lists(len(X), beam)
    _search(X, cells.coarse, 0, np.arange(len(X)), near, score)
    order = np.argsort(near.astype(np.uint16), axis=None, kind="stable")  # 16 bits: radix sort
    starts = np.searchsorted(near.ravel()[order], np.arange(n_coarse + 1))
    near, score = _empty_lists(len(X), min(r, len(cells.sites)))
    for a in range(n_coarse):
        rows = order[starts[a] : starts[a + 1]] // beam
        lo, hi = cells.bounds[a : a + 2]
        _search(X[rows], cells.sites[lo:hi], lo, rows, near, score)
    return _repeat_home(near, score)


def _empty_lists(b: int, r: int) -> tuple[Integers, Floats]:
    return np.full((b, r), -1, np.int32), np.full((b, r), np.inf, np.float32)


def _repeat_home(near: Integers, score: Floats) -> tuple[Integers, Floats]:
    """Fill the empty places of a beam with fewer than r sites with the nearest site."""
    empty = near < 0
    return np.where(empty, near[:, :1], near), np.where(empty, score[:, :1], score)


def _search(X: Floats, centroids: Floats, first: int, rows: Integers, near: Integers, score: Floats) -> None:
    """Insert centroids, numbered from `first`, into the lists of `rows`, the rows of X."""
    norms = np.einsum("ij,ij->i", centroids, centroids)
    _keep_smallest(product(X, -2 * centroids.T), norms, first, rows, near, score)


@compiled
def _keep_smallest(products: Floats, norms: Floats, first: int, rows: Integers, near: Integers, score: Floats) -> None:
    """Insert ``products[i, j] + norms[j]`` into the ascending list of row ``rows[i]``, after its equals.

    `products` (m, k), `norms` (k,), `rows` (m,); the lists are `near` and `score`, (b, r), and column j is number
    ``first + j``.
    """
    for i in range(len(rows)):
        sites, values = near[rows[i]], score[rows[i]]
        for j in range(len(norms)):
            value = products[i, j] + norms[j]
            if value < values[-1]:
                at = len(values) - 1
                while at > 0 and values[at - 1] > value:
                    values[at], sites[at] = values[at - 1], sites[at - 1]
                    at -= 1
                values[at], sites[at] = value, first + j


@compiled_sum
def _border_distance(near: Integers, score: Floats, sites: Any) -> Floats:
    """Distance of rows from the border between their nearest site and each other one, (b, r); 0 for the nearest itself.

    `near` and `score` (b, r) are numbers of sites and ``|site|^2 - 2 x . site``; `sites` (k, d).
    """
    out = np.zeros(near.shape, np.float32)
    for i in range(len(near)):
        home = sites[near[i, 0]]
        for j in range(1, near.shape[1]):
            other = sites[near[i, j]]
            apart = np.float32(0)
            for p in range(len(home)):
                apart += (home[p] - other[p]) ** 2
            if apart > 0:
                out[i, j] = (score[i, j] - score[i, 0]) / (2 * np.sqrt(apart))
    return out


def _margin(near: Integers, distance: Floats, copies: Integers, candidates: float) -> float:
    """Distance from a border up to which rows visit, so that a row meets `candidates` sampled rows on average."""
    residents = (np.bincount(near[:, 0], minlength=len(copies)) / copies)[near]
    residents[:, 1:][near[:, 1:] == near[:, :1]] = 0
    order = np.argsort(distance, axis=None, kind="stable")
    met = np.cumsum(residents.ravel()[order]) / len(near)
    last = np.searchsorted(met, candidates, side="right")
    return np.inf if last == len(met) else float(distance.ravel()[order[last]])


def _among_twins(near: Integers, rows: Integers, cells: Cells) -> Integers:
    """One cell of each site: the only one, or a twin chosen by hash."""
    copies = np.diff(cells.first)
    if copies.max() == 1:
        return near
    bits = row_hash(int(cells.seed), "twins", rows) >> np.uint64(1)
    return cells.first[near] + bits.astype(np.int64)[:, None] % copies[near]


def _pack(member_cells: Integers, n_cells: int, room: float) -> Integers:
    """Pack consecutive cells into groups with at most `room` sampled members."""
    m, r = member_cells.shape
    order = np.argsort(member_cells, axis=None, kind="stable")
    starts = np.searchsorted(member_cells.ravel()[order], np.arange(n_cells + 1))
    group_of_row = np.full(m, -1)
    group, members = np.zeros(n_cells, np.int32), 0
    current = 0
    for cell in range(n_cells):
        rows = order[starts[cell] : starts[cell + 1]] // r
        rows = np.unique(rows)
        arrivals = rows[group_of_row[rows] != current]
        if members and members + len(arrivals) > room:
            current, members, arrivals = current + 1, 0, rows
        group[cell] = current
        group_of_row[arrivals] = current
        members += len(arrivals)
    return group


def _block_rows(width: int) -> int:
    return max(256, _BLOCK_BYTES // (4 * width))


def _blocks(n: int, width: int) -> list[tuple[int, int]]:
    """Half-open ranges of rows, such that a block of float32 rows of `width` has `_BLOCK_BYTES`; one if n is 0."""
    step = _block_rows(width)
    return [(lo, min(lo + step, n)) for lo in range(0, max(n, 1), step)]
