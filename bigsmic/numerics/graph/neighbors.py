"""Nearest neighbours among the members of one group of cells, of new rows, and by brute force.

Matrix products nominate candidates, and exact sums decide among them. A tile of products gives approximate distances of
many pairs; pairs below either row's current worst are inserted into the lists of both rows, which hold a few more than
are wanted. Then the distances of those nominated are recomputed as sums of squared differences, always in the same
order: independent of the tile, the same for (i, j) and (j, i), and 0 for equal rows. Lists are by (distance, row).
"""

import threading
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from bigsmic.errors import InputError
from bigsmic.numerics.compiled import compiled, compiled_sum
from bigsmic.numerics.frozen import frozen
from bigsmic.numerics.graph.equal_rows import find_points, list_copies
from bigsmic.numerics.graph.neighbor_lists import merge_neighbors
from bigsmic.numerics.products import product
from bigsmic.types import Floats, Integers

_SLACK = 4  # nominated beyond k, as rounding of a matrix product may misplace some
_QUERY_SLACK = 8  # the same, if a list must not depend on the other rows of the call
_LANE = 32  # pairs that one branch decides
_TILE_ROWS, _TILE_COLUMNS = 512, 1024  # a tile and its operands stay in a second-level cache of a megabyte or so
_OUTLYING = 100  # times the median squared distance to the mean, from which on the mean may be drawn away
_DRAWN_AWAY = 1000  # times the median squared distance: products then lose four digits of distances
_OWN, _VISITS, _ONE_SIDED = 0, 1, 2  # rows of a tile: residents like the columns, visitors, or not of the group
_NO_CELLS = np.empty((0, 1), np.int32)
_FAR = np.finfo(np.float32).max  # worse than any neighbour; unlike with inf, arithmetic with inf gives no nan
_PYNNDESCENT_LOCK = threading.Lock()  # numba's default threading layer ends the process if two threads enter it


@dataclass(frozen=True)
class NeighborSettings:
    """Parameters of the search in a group.

    Parameters
    ----------
    k : int
        Neighbours of each row.
    method : {"auto", "exact", "pynndescent"}
        "exact" compares with every resident of the cells that a row belongs to; "pynndescent" builds one approximate
        index over the whole group; "auto" uses the index if its estimated cost is at most half.
    seed : int
        Seed of pynndescent.
    n_listed : int, optional
        Neighbours that a row needs; k by default. Equal rows of a group count as one point only if more of its rows
        than this differ, as lists would be too short otherwise.

    Raises
    ------
    InputError
        k below 1, or another method.
    """

    k: int = 20
    method: str = "auto"
    seed: int = 0
    n_listed: int | None = None

    def __post_init__(self) -> None:
        if self.k < 1:
            raise InputError(f"neighbors: got k={self.k}; use at least 1")
        if self.method not in ("auto", "exact", "pynndescent"):
            raise InputError(f"neighbors: got method={self.method!r}; use 'auto', 'exact' or 'pynndescent'")


def group_neighbors(
    X: Floats, rows: Integers, member_cells: Integers, settings: NeighborSettings
) -> tuple[Integers, Floats]:
    """Find neighbours among the members of one group of cells.

    A pair is compared if one of its rows belongs to the home cell of the other. A home row that meets fewer than k
    others this way is compared with every member. Equal rows count as one, in lists the first of them; a row that has
    copies lists one of them first.

    Parameters
    ----------
    X : ndarray of float32, shape (m, d)
        Members: rows at home in the group, and visitors from other groups.
    rows : ndarray of int64, shape (m,), ascending
        Their global row numbers.
    member_cells : ndarray of int32, shape (m, r)
        Cells that each row belongs to, its home first; -1 for a cell of another group. Cells may be repeated.
    settings : NeighborSettings

    Returns
    -------
    indices : ndarray of int32, shape (m, k)
        Positions in `rows`, by (distance, row). The row itself is not among them.
    squares : ndarray of float32, shape (m, k)
        Squared distances. Places without a neighbour, as in a group of at most k rows or for a visitor that met few
        residents, have index -1 and distance inf.

    Raises
    ------
    InputError
        Rows that are not ascending.

    Notes
    -----
    Memory: :func:`group_bytes`, beside X. A join (comparison with neighbours of neighbours) was measured to gain only
    .5 to .75 of the recall per second that visiting more cells gains, so there is none.
    """
    if (np.diff(rows) <= 0).any():
        raise InputError(
            "neighbors: got rows that are not strictly ascending, so ties cannot go to the smaller; sort the members"
        )
    points = find_points(X, member_cells[:, 0], settings.n_listed or settings.k)
    compared, member_cells = points.rows, points.cells(member_cells)
    if _method(len(compared), X.shape[1], member_cells, settings) == "pynndescent":
        ids = _nominate_by_index(X, compared, settings)
    else:
        ids = _nominate_by_cells(X, member_cells, settings.k + _SLACK)
    _complete(X, compared, member_cells[:, 0], ids, settings.k)
    indices, squares = _settled(X, X, np.argsort(member_cells[:, 0], kind="stable"), ids, settings.k)
    list_copies(indices, squares, points)
    return indices, squares


def group_bytes(m: int, d: int, k: int, overlap: int = 16) -> int:
    """Predict the bytes that :func:`group_neighbors` by cells needs for m members, besides X and `member_cells`.

    A copy of what it returns is included.
    """
    tile = 4 * (_TILE_ROWS * _TILE_COLUMNS + 3 * (_TILE_ROWS + _TILE_COLUMNS) * d)
    return tile + m * (24 + max(48 * overlap, 8 * overlap + 16 * (k + _SLACK)))


def exact_neighbors(Q: Floats, X: Floats, k: int, members: Integers | None = None) -> tuple[Integers, Floats]:
    """Find the nearest rows of one block by comparing with all of them.

    Parameters
    ----------
    Q : ndarray of float32, shape (q, d)
    X : ndarray of float32, shape (b, d)
    k : int
    members : ndarray of int64, shape (m,), ascending, optional
        Rows of the block that are compared; all of them by default.

    Returns
    -------
    indices : ndarray of int32, shape (q, k)
        Rows of the block by (distance, row); -1 where the block has fewer than k. :func:`merge_neighbors` puts lists
        of several blocks together.
    squares : ndarray of float32, shape (q, k)
    """
    ids = _nominate_by_force(Q, X, np.arange(len(X)) if members is None else members, k + _QUERY_SLACK)
    return _settled(Q, X, np.arange(len(Q)), ids, k)


class Residents(NamedTuple):
    """Training rows of one block.

    Parameters
    ----------
    X : ndarray of float32, shape (b, d)
    rows : ndarray of int64, shape (b,), ascending
        Their global row numbers.
    homes : ndarray of int32, shape (b,)
        Their home cells.
    """

    X: np.ndarray
    rows: np.ndarray
    homes: np.ndarray


def update_knn(
    best: tuple[Integers, Floats],
    queries: Floats,
    probes: Integers,
    residents: Residents,
    n_listed: int | None = None,
) -> tuple[Integers, Floats]:
    """Improve the lists of new rows by one block of training rows.

    Parameters
    ----------
    best : (indices, squares)
        Global rows, int64, and squared distances, float32, found so far, each of shape (q, k).
    queries : ndarray of float32, shape (q, d)
    probes : ndarray of int32, shape (q, p)
        Cells with whose residents each query is compared; see :func:`bigsmic.numerics.graph.cells.probe`.
    residents : Residents
    n_listed : int, optional
        As in :class:`NeighborSettings`.

    Returns
    -------
    best : (indices, squares)
        By (distance, row), the first of equal rows of a cell. The list of a query does not depend on the other
        queries, nor on the order of the blocks.
    """
    k = best[0].shape[1]
    lists = _empty_lists(len(queries), k + _QUERY_SLACK)
    X, rows, homes = residents
    points = find_points(X, homes, n_listed or k).rows
    of_cells, askers = _by_cell(points, homes[points]), _by_cell(*_flat(probes))
    for cell in sorted(of_cells.keys() & askers.keys()):
        _compare(lists, (queries, askers[cell]), (X, of_cells[cell]), _ONE_SIDED)
    found, squares = _settled(queries, X, np.arange(len(queries)), lists.ids, k)
    return merge_neighbors([best, (np.where(found >= 0, rows[found], -1), squares)])


class _Lists(NamedTuple):
    """The w nearest found so far of m rows, by distances that are not exact yet.

    Parameters
    ----------
    squares : ndarray of float32, shape (m, w), ascending along each row
        `_FAR` where nothing is found yet.
    ids : ndarray of int32, shape (m, w)
        -1 where nothing is found yet.
    worst : ndarray of float32, shape (m,)
        Last column of `squares`.
    """

    squares: np.ndarray
    ids: np.ndarray
    worst: np.ndarray


class _Tile(NamedTuple):
    """Products of some rows with some columns.

    Parameters
    ----------
    products : ndarray of float32, shape (a, w)
        ``-2 x . y``; w is a multiple of `_LANE`.
    row_norms, column_norms : ndarray of float32, shape (a,) and (w,)
        ``|x|^2`` and ``|y|^2``; inf for padding columns.
    rows, columns : ndarray of int64, shape (a,) and (w,)
        Their lists.
    """

    products: np.ndarray
    row_norms: np.ndarray
    column_norms: np.ndarray
    rows: np.ndarray
    columns: np.ndarray


def _empty_lists(m: int, size: int) -> _Lists:
    squares, ids = np.full((m, size), _FAR, np.float32), np.full((m, size), -1, np.int32)
    return _Lists(squares, ids, np.full(m, _FAR, np.float32))


def _rows_of_cells(member_cells: Integers) -> tuple[Any, ...]:
    """Rows at home in every cell, and rows that visit it, each a dict of ascending arrays."""
    home = member_cells[:, 0]
    visited = member_cells[:, 1:]
    residents = _by_cell(*_flat(member_cells[:, :1]))
    visitors = _by_cell(*_flat(np.where(visited == home[:, None], -1, visited)))
    return residents, visitors


def _flat(cells: Integers) -> tuple[Integers, Integers]:
    """Rows and cells of the entries that are not -1."""
    rows, columns = np.nonzero(cells >= 0)
    return rows, cells[rows, columns]


def _by_cell(rows: Integers, cells: Integers) -> dict[int, Integers]:
    """Dict from cell, ascending, to its rows, ascending."""
    order = np.argsort(cells, kind="stable")
    names, starts = np.unique(cells[order], return_index=True)
    return dict(zip(names.tolist(), np.split(rows[order], starts[1:]), strict=False))


def _method(m: int, d: int, cells: Integers, settings: NeighborSettings) -> str:
    """The method for m points; "auto" compares rough CPU seconds, and never builds an index over few."""
    if settings.method == "exact" or m <= 10 * (settings.k + _SLACK):
        return "exact"
    if settings.method == "pynndescent":
        return "pynndescent"
    exact = _n_pairs(cells) * (1.6e-11 * d + 3e-10)
    index = 18 + m * (4e-5 + 1e-7 * d)
    return "exact" if exact < 2 * index else "pynndescent"


def _n_pairs(cells: Integers) -> float:
    """Pairs that the search by cells compares."""
    here = cells >= 0
    here[:, 1:] &= cells[:, 1:] != cells[:, :1]
    residents = np.bincount(cells[:, 0][here[:, 0]], minlength=1).astype(np.float64)
    members = np.bincount(cells[here], minlength=len(residents))[: len(residents)]
    return float(residents @ (members - residents / 2))


def _nominate_by_cells(X: Floats, cells: Integers, size: int) -> Integers:
    """Nominate the nearest among the residents of the cells that each row belongs to, and among those who visit it."""
    residents, visitors = _rows_of_cells(cells)
    lists = _empty_lists(len(X), size)
    for own in residents.values():
        _compare(lists, (X, own), (X, own), _OWN)
    for cell, own in residents.items():
        if cell in visitors:
            _compare(lists, (X, visitors[cell]), (X, own), _VISITS, cells)
    return lists.ids


def _nominate_by_force(Q: Floats, X: Floats, members: Integers, size: int) -> Integers:
    """Nominate the nearest among some rows of X."""
    lists = _empty_lists(len(Q), size)
    _compare(lists, (Q, np.arange(len(Q))), (X, members), _ONE_SIDED)
    return lists.ids


def _nominate_by_index(X: Floats, points: Integers, settings: NeighborSettings) -> Integers:
    """Nominate neighbours by a pynndescent index of some rows, on one thread, as more would change its result."""
    from pynndescent import NNDescent

    size = settings.k + _SLACK + 1
    with _PYNNDESCENT_LOCK:
        rows = X if len(points) == len(X) else X[points]
        index = NNDescent(rows, n_neighbors=size, max_candidates=size, random_state=settings.seed, n_jobs=1)
        found = index.neighbor_graph[0]
    ids = np.full((len(X), size), -1, np.int32)
    ids[points] = np.where((found < 0) | (found == np.arange(len(points))[:, None]), -1, points[found])
    return ids


def _complete(X: Floats, points: Integers, homes: Integers, ids: Integers, k: int) -> None:
    """Nominate by brute force for home rows with fewer than k neighbours, if there are other points."""
    home = np.flatnonzero(homes >= 0)
    few = home[np.count_nonzero(ids[home] >= 0, axis=1) < min(k, len(points) - 1)]
    if len(few):
        found = _nominate_by_force(X[few], X, points, ids.shape[1])
        ids[few] = np.where(found == few[:, None], -1, found)


def _compare(
    lists: _Lists,
    rows: tuple[Floats, Integers],
    columns: tuple[Floats, Integers],
    kind: int,
    cells: Integers = _NO_CELLS,
) -> None:
    """Compare rows with columns, each given as (array, positions in it), and keep near pairs."""
    (Q, queries), (X, members) = rows, columns
    for lo in range(0, len(members), _TILE_COLUMNS):
        part = members[lo : lo + _TILE_COLUMNS]
        centre, away = _centred(X[part])
        operand, norms = _columns(away)
        ids = np.append(part, np.full(len(norms) - len(part), -1))
        for a in range(lo if kind == _OWN else 0, len(queries), _TILE_ROWS):
            chunk = queries[a : a + _TILE_ROWS]
            x = Q[chunk] - centre
            _feed(_Tile(product(x, operand), np.einsum("ij,ij->i", x, x), norms, chunk, ids), lists, cells, kind)


def _centred(y: Floats) -> tuple[Floats, Floats]:
    """Centre of some rows, and the rows from there: products have smaller rounding errors near the origin.

    It is the mean, or the median of every column if rows that lie far out have drawn the mean away from most others.
    """
    mean = y.mean(axis=0)
    from_mean = y - mean
    squares = np.einsum("ij,ij->i", from_mean, from_mean)
    if squares.max() <= _OUTLYING * np.median(squares):
        return mean, from_mean
    median = np.median(y, axis=0)
    from_median, drawn = y - median, mean - median
    squares = np.einsum("ij,ij->i", from_median, from_median)
    is_drawn_away = np.einsum("i,i", drawn, drawn) > _DRAWN_AWAY * np.median(squares)
    return (median, from_median) if is_drawn_away else (mean, from_mean)


def _columns(y: Floats) -> tuple[Floats, Floats]:
    """``-2 y'`` and ``|y|^2``, padded to a multiple of `_LANE` columns."""
    operand = np.zeros((-(-len(y) // _LANE) * _LANE, y.shape[1]), np.float32)
    norms = np.full(len(operand), np.inf, np.float32)
    np.multiply(y, -2, out=operand[: len(y)])
    norms[: len(y)] = np.einsum("ij,ij->i", y, y)
    return operand.T, norms


@compiled
def _feed(tile: _Tile, lists: _Lists, cells: Integers, kind: int) -> None:
    """Insert every near pair of a tile (a, w) into the list of its row and, unless one-sided, of its column.

    `lists` are of all members, m; `cells` (m, r) are those of a member, its home first.
    """
    both = kind != _ONE_SIDED
    limits = np.full(len(tile.columns), -np.inf, np.float32)  # limits for the columns, without |x|^2
    for j in range(len(limits)):
        if both and tile.columns[j] >= 0:
            limits[j] = lists.worst[tile.columns[j]] - tile.column_norms[j]
    near = np.empty(_LANE, np.int64)
    for i in range(len(tile.rows)):
        row, norm = tile.rows[i], tile.row_norms[i]
        for lo in range(0, len(limits), _LANE):
            bound = lists.worst[row] - norm
            for place in range(_lookup(tile, limits, i, lo, bound, near)):
                j = near[place]
                column = tile.columns[j]
                if (kind == _OWN and column >= row) or (kind == _VISITS and _met_before(cells, row, column)):
                    continue
                square = max(tile.products[i, j] + (norm + tile.column_norms[j]), np.float32(0))
                if square < lists.worst[row]:
                    _insert(lists, row, square, column)
                if both and square < lists.worst[column]:
                    _insert(lists, column, square, row)
                    limits[j] = lists.worst[column] - tile.column_norms[j]


@compiled
def _lookup(tile: Any, limits: Any, i: int, lo: int, bound: Any, near: Any) -> Any:
    """Write to `near` the columns of a lane whose product with row i is below either limit; return their number.

    A lane is ``_LANE`` columns from `lo` on; `limits` (w,) are those of the columns, `bound` that of the row.
    """
    products = tile.products[i, lo : lo + _LANE]
    limits, norms = limits[lo : lo + _LANE], tile.column_norms[lo : lo + _LANE]
    norm, hits = tile.row_norms[i], 0
    for j in range(_LANE):
        hits += products[j] < max(limits[j] - norm, bound - norms[j])
    if hits == 0:
        return 0
    hits = 0
    for j in range(_LANE):
        near[hits] = lo + j
        hits += products[j] < max(limits[j] - norm, bound - norms[j])
    return hits


@compiled
def _insert(lists: Any, row: int, square: Any, column: int) -> None:
    """Insert a column into the ascending list of a row, (w,), whose last entry is lost."""
    squares, ids = lists.squares[row], lists.ids[row]
    at = len(ids) - 1
    while at > 0 and squares[at - 1] > square:
        squares[at], ids[at] = squares[at - 1], ids[at - 1]
        at -= 1
    squares[at], ids[at] = square, column
    lists.worst[row] = squares[-1]


@compiled
def _met_before(cells: Integers, row: int, column: int) -> Any:
    """Whether a pair was met in the home cell of the row, as cells are searched in ascending order; `cells` (m, r)."""
    home, here = cells[row, 0], cells[column, 0]
    if 0 <= home < here:
        for t in range(1, cells.shape[1]):
            if cells[column, t] == home:
                return True
    return False


def _settled(Q: Floats, X: Floats, order: Integers, ids: Integers, k: int) -> tuple[Integers, Floats]:
    """The k best of the nominated, by exact distance and then position; `order` is one in which near rows are near."""
    squares = np.empty(ids.shape, np.float32)
    _settle(frozen(Q), frozen(X), order, ids, squares)
    return ids[:, :k], squares[:, :k]


@compiled
def _settle(Q: Any, X: Any, order: Integers, ids: Integers, squares: Floats) -> None:
    """Sort each row of `ids` (m, w) by exact squared distance and then id, and write the distances to `squares` (m, w).

    Q is (m, d), X (n, d); rows are taken in the order of `order` (m,). Empty places, -1, go to the end.
    """
    for i in order:
        found = 0
        for t in range(ids.shape[1]):
            j = ids[i, t]
            if j >= 0:
                square = _square(Q[i], X[j])
                at = found
                while at > 0 and (square < squares[i, at - 1] or (square == squares[i, at - 1] and j < ids[i, at - 1])):
                    squares[i, at], ids[i, at] = squares[i, at - 1], ids[i, at - 1]
                    at -= 1
                squares[i, at], ids[i, at] = square, j
                found += 1
        for t in range(found, ids.shape[1]):
            squares[i, t], ids[i, t] = np.inf, -1


@compiled_sum
def _square(x: Any, y: Any) -> Any:
    """Squared distance of x and y, (d,); one compiled function, so that every pair is summed in one order."""
    total = np.float32(0)
    for p in range(len(x)):
        total += (x[p] - y[p]) ** 2
    return total
