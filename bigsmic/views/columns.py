"""Columns of the archive by cluster, in one pass over its rows and bounded memory."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np

from bigsmic.errors import InputError, RunMismatchError
from bigsmic.numerics.labeling.column_sums import ColumnSums, column_sums, effects
from bigsmic.numerics.moments import Moments
from bigsmic.runtime.context import Context
from bigsmic.stages import selected
from bigsmic.store import Source, open_source
from bigsmic.types import Floats, Integers
from bigsmic.views.passes import Block, Sight

MOST_SUMS = 1 << 21
"""Largest number of clusters times columns whose sums are kept, in 16 bytes each; then columns of largest variance.

A pass over many blocks holds as many sums as its tree has levels.
"""

CENTER_ROWS = 1000
"""Number of rows of whose columns the medians are known."""


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

    def strongest(self, cluster: int, most: int, per_group: int = 1) -> list[tuple[int, float]]:
        """Columns that distinguish a cluster from the rest, the strongest first, with their effects.

        Parameters
        ----------
        cluster, most : int
            Of which cluster, and how many.
        per_group : int
            So many columns in a row are alike, as samples of a channel are: one of them is taken.
        """
        size = np.abs(self.effects[cluster])
        order = np.argsort(-size, kind="stable")
        _, first = np.unique(self.columns[order] // per_group, return_index=True)
        order = order[np.sort(first)[:most]]
        return [(int(self.columns[j]), float(self.effects[cluster, j])) for j in order if size[j] > 0]

    @classmethod
    def of(cls, context: Context, total: ColumnSums) -> Self:
        """The table from sums over all rows, which :class:`ColumnTotals` computes."""
        columns = held(context, len(total.counts))
        center = center_of(context)[columns]
        return cls(columns, total.mean + center, total.spread, effects(total))


@dataclass(frozen=True)
class ColumnTotals(Sight):
    """Sums of columns by cluster over stored rows."""

    of_archive = True

    def __call__(self, block: Block) -> ColumnSums:
        """Those of a block."""
        context, c = block.context, block.posterior.shape[1]
        columns = held(context, c)
        X = block.X if len(columns) == context.d else block.X[:, columns]
        return column_sums(X, block.labels, c, center_of(context)[columns])


def center_of(context: Context) -> Floats:
    """Median of the rows that the scan has drawn, float64 (d,), or the center of the fit if it has drawn none.

    A few rows far out, such as with a number that stands for a missing one, move the mean of all so far from the others
    that sums of squares about it do not tell their spreads.
    """
    found: Floats = context.cached("center of columns", partial(_center, context))
    return found


def _center(context: Context) -> Floats:
    drawn = context.drawn_rows()
    if not len(drawn):
        return context.scaler.center
    return np.median(drawn[:: -(-len(drawn) // CENTER_ROWS)].astype(np.float64), axis=0)


def archive_of(context: Context, who: str, data: Any, reading: Mapping[str, Any]) -> Source:
    """The rows of an archive that a finished fit used.

    Parameters
    ----------
    context : Context
        Of the fit.
    who : str
        Who asks, for messages.
    data, reading
        As of :func:`bigsmic.store.open_source`.

    Raises
    ------
    InputError
        Nothing readable, or a fit of a graph.
    RunMismatchError
        Rows of another number, width or dtype; of other content, it is raised where they are read.
    """
    if context.settings.precomputed:
        raise InputError(f"{who}: the run is of a graph, which has no columns; leave the archive out")
    source: Source = selected.of_run(context.run, open_source(data, **reading))
    found, known = source.describe(), context.run.identity["input"]
    differing = [name for name in ("rows", "columns", "dtype", "decoded") if found.get(name) != known.get(name)]
    if differing:
        said = ", ".join(f"{found.get(name)} {name} where the run has {known.get(name)}" for name in differing)
        raise RunMismatchError(
            f"{who}: {source.name} has {said}; give the archive of the fit, with the same rows as then"
        )
    return source


def held(context: Context, c: int) -> Integers:
    """Columns whose sums are kept."""
    columns: Integers = context.cached(("held columns", c), partial(_held, context, c))
    return columns


def _held(context: Context, c: int) -> Integers:
    d, most = context.d, max(1, MOST_SUMS // c)
    if d <= most:
        return np.arange(d)
    squares = context.scanned(Moments).m2  # factors are all equal where columns were not divided
    return np.sort(np.argsort(-squares, kind="stable")[:most])
