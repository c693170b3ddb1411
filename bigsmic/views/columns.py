"""Columns of the archive by cluster, in one pass over its rows and bounded memory."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigsmic.errors import InputError, RunMismatchError
from bigsmic.numerics.labeling.column_sums import ColumnSums, column_sums, effects
from bigsmic.numerics.row_blocks import TreeSum
from bigsmic.runtime.context import Context
from bigsmic.stages import selected
from bigsmic.stages.rowwise_output import read_array
from bigsmic.store import open_source
from bigsmic.types import Floats, Integers

MOST_SUMS = 1 << 23
"""Clusters times columns whose sums are held, in 16 bytes each; of more columns, those of largest variance are."""


@dataclass(frozen=True)
class ColumnTable:
    """Mean, spread and effect of columns in every cluster.

    Parameters
    ----------
    columns : ndarray of int64, shape (m,)
        Numbers of the columns, ascending; all of them, unless they are very many.
    mean, spread, effects : ndarray of float64, shape (c, m)
        In the units of the archive; see :mod:`bigsmic.numerics.labeling.column_sums`.
    """

    columns: Integers
    mean: Floats
    spread: Floats
    effects: Floats

    def strongest(self, cluster: int, most: int) -> list[tuple[int, float]]:
        """Columns that tell a cluster from the rest, the strongest first, with their effects."""
        size = np.abs(self.effects[cluster])
        order = np.argsort(-size, kind="stable")[:most]
        return [(int(self.columns[j]), float(self.effects[cluster, j])) for j in order if size[j] > 0]


def column_table(context: Context, c: int, blocks: Iterable[tuple[int, NDArray[Any]]]) -> ColumnTable:
    """Columns in each of `c` clusters.

    Parameters
    ----------
    context : Context
    c : int
    blocks : iterable of int and ndarray
        Blocks of the archive, in their order: number of the first row, and rows as stored. They are read once.
    """
    labels, center = read_array(context, "labels"), context.scaler.center
    columns, tree = _held(context, c), TreeSum(len(context.source_blocks))
    for s, (lo, X) in enumerate(blocks):
        held = X if len(columns) == X.shape[1] else X[:, columns]
        tree.add(s, column_sums(held, labels[lo : lo + len(X)], c, center[columns]))
    total: ColumnSums = tree.total()
    return ColumnTable(columns, total.mean + center[columns], total.spread, effects(total))


def column_table_of(context: Context, data: Any, reading: Mapping[str, Any]) -> ColumnTable:
    """Columns in each cluster of a finished fit, of the rows that it was made of.

    Raises
    ------
    InputError
        Nothing readable, or a fit of a graph.
    RunMismatchError
        Other rows than those of the fit.
    """
    if context.settings.precomputed:
        raise InputError("profiles: the fit is of a graph, which has no columns")
    source, known = selected.of_run(context.run, open_source(data, **reading)), context.run.identity["input"]
    if source.shape != (known["rows"], known["columns"]):
        raise RunMismatchError(
            f"profiles: got {source.shape[0]:,} rows x {source.shape[1]:,} columns, the fit has {known['rows']:,} x "
            f"{known['columns']:,}; give the rows that it was made of"
        )
    of_data = Context(source, context.run, context.settings)
    blocks = ((int(of_data.source_bounds[s]), of_data.input_block(s)) for s in of_data.source_blocks)
    n_clusters = read_array(context, "posterior").shape[1]
    return column_table(of_data, n_clusters, blocks)


def _held(context: Context, c: int) -> Integers:
    """Columns whose sums fit."""
    d, most = context.d, max(1, MOST_SUMS // c)
    if d <= most:
        return np.arange(d)
    spread = np.divide(1, context.scaler.factor, out=np.zeros(d), where=context.scaler.factor != 0)
    return np.sort(np.argsort(-spread, kind="stable")[:most])
