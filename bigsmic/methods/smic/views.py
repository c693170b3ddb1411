"""Views of a finished fit on a neighbour graph: eigenvectors, affinities, labelings."""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import csr_array

from bigsmic.errors import AbsentResultError, InputError
from bigsmic.numerics.graph.affinity import KernelBlock, column_positions
from bigsmic.numerics.hashing import draw_rows
from bigsmic.numerics.labeling import consensus
from bigsmic.numerics.labeling.cluster_sums import best_jaccard
from bigsmic.numerics.labeling.metrics import contingency
from bigsmic.numerics.mutual_information.lsmi import lsmi_of_each
from bigsmic.runtime.context import Context
from bigsmic.settings.smic import REPORTED_CENTERS
from bigsmic.stages import choice, kernel_matrix, numbering
from bigsmic.stages.coarse_graph import coarse_affinities
from bigsmic.stages.consensus import all_labels
from bigsmic.stages.eigenvectors import basis_name
from bigsmic.stages.labeling_specs import Eigenproblem, specs_of
from bigsmic.stages.labelings import read_labels
from bigsmic.stages.row_access import positions_of, read_at
from bigsmic.types import Integers
from bigsmic.validation import check_integer
from bigsmic.views.layout import Neighborhoods

ENTRY_BYTES = 12  # of an entry of a sparse matrix: an index and a weight


def has_graph(context: Context) -> bool:
    """Whether the fit was not trivial, so that it has a graph."""
    return context.run.done("spectrum", 0)


def refuse_trivial(context: Context, name: str) -> None:
    """Refuse views of artifacts that a trivial fit lacks.

    Raises
    ------
    AbsentResultError
    """
    if not has_graph(context):
        raise AbsentResultError(
            f"{name}: this fit has none, as it was asked for one cluster, or for at least as many clusters as "
            "distinct rows; fit with another number of clusters"
        )


def central(context: Context) -> Eigenproblem:
    """Eigenproblem of the medoid labeling among those of the result.

    The first eigenproblem if a fit leaves the number of clusters open.
    """
    specs = specs_of(context)
    if context.settings.undecided:
        return specs[0].eigenproblem
    taken = list(choice.members(context))
    ari = context.run.read("consensus", 0, "ari")
    return specs[taken[consensus.medoid(ari[np.ix_(taken, taken)])]].eigenproblem


class Embedding:
    """Leading eigenvectors at every row, on disk, read where they are sliced; rows in input order.

    A slice reads the row blocks with its rows; ``numpy.asarray`` reads every block once. Rows are indexed as in NumPy,
    by a number, a slice, numbers or booleans; an index of columns may follow.

    Parameters
    ----------
    context : Context
    eigenproblem : Eigenproblem

    Attributes
    ----------
    shape : tuple of int
        (n, m). Columns are orthonormal, and in the order of their eigenvalues, largest first.
    dtype : dtype
        float32.
    kernel, t
        Of the matrix: see ``Result.scores``.
    """

    dtype = np.dtype(np.float32)
    ndim = 2

    def __init__(self, context: Context, eigenproblem: Eigenproblem) -> None:
        self._context, self._stage = context, basis_name(eigenproblem)
        self.kernel, self.t = eigenproblem.kernel, eigenproblem.t
        self.shape = context.n, context.run.read(self._stage, 0, "V").shape[1]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> NDArray[Any]:
        first, *rest = key if isinstance(key, tuple) else (key,)
        rows = np.arange(len(self))[first]
        found = read_at(self._context, np.atleast_1d(rows), partial(self._context.run.read, self._stage, name="V"))
        picked: NDArray[Any] = found[(slice(None) if rows.ndim else 0, *rest)]
        return picked

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("embedding: eigenvectors on disk cannot be an array without a copy; leave copy=False out")
        return self[:].astype(dtype or self.dtype, copy=False)

    def __repr__(self) -> str:
        n, m = self.shape
        return f"<{m} eigenvectors at {n:,} rows of {self._context.run.location}: {self._stage}, read when sliced>"


def graph(context: Context, rows: Integers | None, max_rows: int) -> csr_array:
    """Affinities between rows, in their order: :meth:`~bigsmic.methods.smic.result.LabelingsResult.graph`."""
    refuse_trivial(context, "graph")
    _refuse_unstored(context, "graph")
    check_integer("max_rows", max_rows, 1)
    wanted = np.arange(context.n) if rows is None else _distinct_rows(rows, context.n)
    if len(wanted) > max_rows:
        size = ENTRY_BYTES * 2 * context.settings.n_neighbors * len(wanted)
        raise InputError(
            f"graph: got {len(wanted):,} rows, more than max_rows={max_rows:,}; give max_rows={len(wanted)} if "
            f"{size / 2**30:.2g} GiB may be used, or rows=result.sample({max_rows}) for the affinities between some"
        )
    order = np.argsort(wanted)
    positions = np.empty(len(wanted), np.int64)
    positions[order] = positions_of(context, wanted[order])
    return _between(context, central(context).graph, positions)


def _refuse_unstored(context: Context, name: str) -> None:
    if context.settings.kernel == "callable":
        raise AbsentResultError(
            f"{name}: the fit's kernel was a callable, which is not stored; pass kernel= to Result.open"
        )


def neighborhoods(context: Context, rows: Integers) -> Neighborhoods:
    """What a map of some rows, ascending, is laid out from: their part of the graph and the first eigenvectors.

    The first eigenvector of all says no more than how many neighbours a row has.
    """
    _refuse_unstored(context, "map")
    eigenproblem = central(context)
    affinities = coarse_affinities(context, eigenproblem.graph, rows)
    return Neighborhoods(rows, affinities, Embedding(context, eigenproblem)[rows, 1:3])


def _distinct_rows(rows: Any, n: int) -> Integers:
    """Row numbers that a caller gave, checked."""
    found = np.asarray(rows)
    if found.shape == (0,):
        return found.astype(np.int64)  # NumPy takes an empty list for one of float64
    if found.ndim != 1 or found.dtype.kind not in "iu" or len(np.unique(found)) < found.size:
        raise InputError(f"rows: got {found.dtype} of shape {found.shape}; give the numbers of rows, each of them once")
    if found.size and not 0 <= found.min() <= found.max() < n:
        raise InputError(f"rows: got {found.min()} to {found.max()}; use row numbers from 0 to {n - 1}")
    return found.astype(np.int64)


def _between(context: Context, eigenproblem: Eigenproblem, positions: Integers) -> csr_array:
    """Affinities between the rows at some distinct positions, in their order: float32, (m, m)."""
    if not len(positions):
        return csr_array((0, 0), dtype=np.float32)
    m, order = len(positions), np.argsort(positions)
    ordered = positions[order]
    cuts = np.searchsorted(ordered, context.layout.bounds)
    parts = [
        _entries(kernel_matrix.weights_block(context, eigenproblem, p), ordered, slice(cuts[p], cuts[p + 1]))
        for p in np.flatnonzero(np.diff(cuts)).tolist()
    ]
    row, column, data = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    found = csr_array((data, (order[row], order[column])), shape=(m, m))
    found.sort_indices()
    return found


def _entries(block: KernelBlock, ordered: Integers, own: slice) -> tuple[Integers, Integers, NDArray[np.float32]]:
    """Entries of some rows of a block, in columns that are wanted too; both numbered by their place in `ordered`."""
    height = np.diff(block.indptr)
    place = np.full(block.hi - block.lo, -1)
    place[ordered[own] - block.lo] = np.arange(own.start, own.stop)
    columns = column_positions(block)
    at = np.searchsorted(ordered, columns).clip(max=len(ordered) - 1)
    at = np.where(ordered[at] == columns, at, -1)[block.indices]
    row = np.repeat(place, height)
    kept = (row >= 0) & (at >= 0)
    return row[kept], at[kept], block.data[kept]


def labelings(context: Context, rows: Integers | None) -> NDArray[np.int32]:
    """Labels under every labeling, at some rows; see :meth:`~bigsmic.methods.smic.result.LabelingsResult.labelings`."""
    refuse_trivial(context, "labelings")
    wanted = np.arange(context.n) if rows is None else _distinct_rows(rows, context.n)
    read = partial(all_labels, context, numbers=range(len(specs_of(context))))
    return read_at(context, wanted, read).T


def lsmi_of_labelings(context: Context, max_rows: int) -> NDArray[np.float64]:
    """LSMI under every labeling; see :meth:`~bigsmic.methods.smic.result.LabelingsResult.lsmi`."""
    refuse_trivial(context, "lsmi")
    if context.settings.precomputed:
        raise AbsentResultError("lsmi: the fit was of a graph, which has no features to tell labels by")
    check_integer("max_rows", max_rows, 2)
    seed = context.settings.seed
    rows = draw_rows(context.n, min(context.n, max_rows), seed, "lsmi")
    X = read_at(context, rows, partial(context.run.read, "rows", name="X"))
    return lsmi_of_each(X, labelings(context, rows), n_centers=REPORTED_CENTERS, seed=seed)


def stability(context: Context) -> NDArray[np.float64]:
    """Mean over the labelings that make up the result of the best Jaccard index of every cluster: float64, (c,)."""
    taken = list(choice.members(context))
    sizes, c = context.run.info("consensus", 0)["sizes"], context.settings.n_clusters
    tables = [np.zeros((c, sizes[b]), np.int64) for b in taken]
    for p in context.blocks:
        labels = context.run.read("final", p, "labels")
        for table, b in zip(tables, taken, strict=True):
            table += contingency(labels, read_labels(context, p, b), *table.shape)
    return numbering.spread(context, np.mean([best_jaccard(table) for table in tables], axis=0), np.nan)
