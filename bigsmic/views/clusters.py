"""Tables of the clusters of a finished fit of any method, computed in passes over blocks of rows."""

from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from bigsmic.engines.base import Engine
from bigsmic.engines.threads import ThreadEngine
from bigsmic.numerics.graph.connectivity import first_of_each
from bigsmic.numerics.hashing import draw_rows
from bigsmic.numerics.labeling import cluster_sums
from bigsmic.runtime.context import Context
from bigsmic.types import Floats, Integers, Rows
from bigsmic.validation import check_integer
from bigsmic.views import layout
from bigsmic.views.columns import ColumnTable, ColumnTotals, archive_of
from bigsmic.views.passes import Block, OnMap, Sight, pass_over

if TYPE_CHECKING:
    import pandas as pd

SAMPLE_ROWS = layout.MOST_ROWS
"""Number of rows of a sample."""
EXAMPLES = 5
"""Number of example rows of a cluster."""


@dataclass(frozen=True)
class ClusterTotals(Sight):
    """Sums of posteriors and labels by cluster."""

    def __call__(self, block: Block) -> cluster_sums.ClusterSums:
        """Those of a block."""
        return cluster_sums.cluster_sums(block.labels, block.posterior, block.agreement)


class Examples(NamedTuple):
    """Some rows of each cluster; the sum of two keeps as many rows, those with the smallest keys.

    Parameters
    ----------
    clusters, keys, rows : ndarray, shape (e,)
        By cluster, then key, of equal ones by row number.
    most : int
        Rows of a cluster.
    """

    clusters: Integers
    keys: Floats
    rows: Integers
    most: int

    def __add__(self, other: Any) -> "Examples":  # tuples would grow longer
        """Those of both."""
        clusters, keys, rows = (np.concatenate(arrays) for arrays in zip(self[:3], other[:3], strict=True))
        return Examples.of(clusters, keys, rows, self.most)

    @classmethod
    def of(cls, clusters: Integers, keys: Floats, rows: Integers, most: int) -> Self:
        """Those of some rows."""
        clusters, keys, rows = first_of_each(clusters, keys, rows, most)
        return cls(clusters, keys, rows, most)


@dataclass(frozen=True)
class Certain(Sight):
    """Rows of each cluster whose certainty is largest or smallest, ties by row number.

    Certainty is the mean of the row's agreement and of the posterior of its label.

    Parameters
    ----------
    count : int
        Rows of each cluster; all of them where it has fewer.
    sign : {1, -1}
        -1 for those that are surest.
    """

    count: int
    sign: int

    def __call__(self, block: Block) -> Examples:
        """Those of a block."""
        known = np.flatnonzero(block.labels >= 0)
        certainty = (block.own[known].astype(np.float64) + block.agreement[known]) / 2
        return Examples.of(block.labels[known], self.sign * certainty, known + block.lo, self.count)


class ClusterViews:
    """Views of a Result of any method on its clusters and on single rows."""

    settings: Any

    if TYPE_CHECKING:

        @property
        def diagnostics(self) -> dict[str, Any]:
            """Diagnostics of the fit."""

        @property
        def _context(self) -> Context: ...
        def _refuse_undecided(self, what: str) -> None: ...

    @cached_property
    def _seen(self) -> dict[Sight, Any]:
        """Cached results of passes over the run."""
        return {}

    def _look(self, *sights: Sight, source: Any = None, engine: Engine | None = None) -> list[Any]:
        """Results of several sights, in one pass over the run for those that are not cached or read the archive.

        Parameters
        ----------
        *sights : Sight
        source : Source, optional
            The archive, where its rows are looked at.
        engine : Engine, optional
            Open; by default one thread of this process.
        """
        new, found = [sight for sight in dict.fromkeys(sights) if sight not in self._seen], dict(self._seen)
        if new:
            context = Context(source, self._context.run, self.settings)
            with nullcontext(engine) if engine else ThreadEngine() as opened:
                found |= zip(new, pass_over(context, new, opened), strict=True)
        self._seen |= {sight: what for sight, what in found.items() if not sight.of_archive}
        return [found[sight] for sight in sights]

    @property
    def _cluster_sums(self) -> cluster_sums.ClusterSums:
        found: cluster_sums.ClusterSums = self._look(ClusterTotals())[0]
        return found

    def _on_map(self, name: str, n_rows: int) -> NDArray[Any]:
        """Labels, agreement, or own posterior of the rows of a map; see :class:`~bigsmic.views.passes.OnMap`."""
        found: NDArray[Any] = self._look(OnMap(name, n_rows, self.map(n_rows).rows))[0].array
        return found

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Rows of every cluster: ndarray of int64, shape (c,). Rows of label -1 are in none."""
        self._refuse_undecided("sizes")
        return self._cluster_sums.counts

    @property
    def density_ratios(self) -> NDArray[np.float64]:
        """Ratio of the clusters' joint posterior mass at one row to that by chance: ndarray of float64, shape (c, c).

        0 for clusters that never meet, and 1 where they meet as often as by chance; a larger value off the diagonal
        marks clusters that are hard to tell apart. In one pass over the posterior.
        """
        self._refuse_undecided("density_ratios")
        return cluster_sums.density_ratios(self._cluster_sums.gram)

    @property
    def cluster_tree(self) -> NDArray[np.float64]:
        """Merge tree of the clusters, as scipy's linkage: ndarray of float64, shape (c - 1, 4).

        Leaf i is cluster i. The two clusters of largest density ratio are merged first; heights are the running maximum
        of ``-log r``, shifted to start at 0. Clusters without rows come last.
        """
        self._refuse_undecided("cluster_tree")
        return cluster_sums.cluster_tree(self._cluster_sums.gram).linkage()

    @cached_property
    def clusters(self) -> "pd.DataFrame":
        """Properties of every cluster: a pandas DataFrame indexed by the cluster.

        Columns ``rows``; ``share`` of the rows in clusters; ``posterior`` and ``agreement``, their means over the rows
        of the cluster, nan where it has none; ``nearest`` other cluster by density ratio, -1 for none, and
        ``density_ratio`` with it. Methods that compare labelings add ``stability``, the mean over labelings of the
        Jaccard index with the label that is most like the cluster; SMIC the weakest valley, ``valley_to``,
        ``valley_depth`` and ``valley_z``.
        """
        import pandas as pd

        self._refuse_undecided("clusters")
        found = pd.DataFrame(_columns(self._cluster_sums) | self._cluster_columns())
        return found.rename_axis("cluster")

    def _cluster_columns(self) -> dict[str, NDArray[Any]]:
        """Further columns of `clusters` from the method."""
        return {}

    def typical_rows(self, count: int = EXAMPLES) -> "pd.DataFrame":
        """The most certain rows of every cluster: a pandas DataFrame.

        Parameters
        ----------
        count : int
            Rows of a cluster; all of them where it has fewer.

        Returns
        -------
        rows : pandas.DataFrame
            Columns ``cluster``, ``row`` and ``certainty``, the mean of the row's agreement and of the posterior of its
            label; by cluster, the surest first, of equal ones the smaller row number.

        Raises
        ------
        InputError
            `count` is below 1, or the number of clusters is open.
        """
        return self._examples("typical_rows", count, -1)

    def uncertain_rows(self, count: int = EXAMPLES) -> "pd.DataFrame":
        """The least certain rows of every cluster; see :meth:`typical_rows`."""
        return self._examples("uncertain_rows", count, 1)

    def _examples(self, name: str, count: int, sign: int) -> "pd.DataFrame":
        import pandas as pd

        self._refuse_undecided(name)
        check_integer("count", count, 1)
        (found,) = self._look(Certain(int(count), sign))
        return pd.DataFrame({"cluster": found.clusters, "row": found.rows, "certainty": sign * found.keys})

    def sample(self, n_rows: int = SAMPLE_ROWS) -> NDArray[np.int64]:
        """Numbers of rows drawn by a hash of the seed and of their numbers.

        Parameters
        ----------
        n_rows : int
            All rows where the fit has fewer.

        Returns
        -------
        rows : ndarray of int64, shape (min(n_rows, n),), ascending
            The same at every call; a smaller sample is part of a larger one.

        Raises
        ------
        InputError
            `n_rows` is no integer of at least 1.
        """
        check_integer("n_rows", n_rows, 1)
        return draw_rows(self._context.n, int(n_rows), self.settings.seed, "view")

    def map(self, n_rows: int = layout.MOST_ROWS) -> layout.Map:
        """Layout of rows in the plane by t-SNE, from the fit's affinities, starting from its eigenvectors.

        Of a fit of more rows, those of :meth:`sample` are laid out, by what they own of the graph: every other row
        belongs to the one that it is tied to most closely, and affinities are added up. Of a fit without a graph, by
        their nearest neighbours among the rows that its scan has drawn.

        Parameters
        ----------
        n_rows : int
            20,000 at most; all rows where the fit has fewer.

        Returns
        -------
        map : Map
            ``rows`` int64 (m,), row numbers, and ``points`` float32 (m, 2). Rows that are tied to none of the others
            are left out. The same at every call, to the bit on processors of one type, whatever labels are asked for.

        Raises
        ------
        InputError
            `n_rows` is out of range, openTSNE is not installed (``pip install 'bigsmic[plots]'``), or the fit has
            nothing to lay out (:class:`~bigsmic.errors.AbsentResultError`).

        Notes
        -----
        Takes up to a minute, and 4 bytes for each row of the fit. Kept with the Result, not in the run directory.
        """
        check_integer("n_rows", n_rows, 1)
        layout.check_rows(n_rows)
        if n_rows not in self._maps:
            self._maps[n_rows] = layout.laid_out(self._neighborhoods(n_rows), self.settings.seed)
        return self._maps[n_rows]

    def profiles(self, data: Rows, **reading: Any) -> ColumnTable:
        """Mean and spread of columns in every cluster, in one pass over the fitted rows.

        Parameters
        ----------
        data : array_like, Zarr array, path or URL, shape (n, d)
            The rows of the fit: a run directory has no copy of them as they came.
        **reading
            `component`, `storage_options` and `missing_chunks`, as of :func:`bigsmic.fit`.

        Returns
        -------
        table : ColumnTable
            ``columns`` int64 (m,), all of them unless they are very many; ``mean``, ``spread`` and ``effects`` float64
            (c, m), in the units of `data`; an effect is how far a cluster is from the others, in standard deviations.

        Raises
        ------
        InputError
            Nothing readable, a fit without labels, or one of a graph.
        RunMismatchError
            Other rows than those of the fit.
        """
        self._refuse_undecided("profiles")
        source = archive_of(self._context, "profiles", data, reading)
        return ColumnTable.of(self._context, self._look(ColumnTotals(), source=source)[0])

    @cached_property
    def _maps(self) -> dict[int, layout.Map]:
        return {}

    def _neighborhoods(self, n_rows: int) -> layout.Neighborhoods:
        """Affinities and start of a map."""
        return layout.among_sample(self._context, n_rows)

    @property
    def costs(self) -> "pd.DataFrame":
        """Seconds and memory of every stage, over all calls of the fit: a pandas DataFrame indexed by the stage.

        Columns ``wall`` and ``cpu`` seconds, and ``peak_bytes`` of the process, or of the workers.
        """
        import pandas as pd

        stages = self.diagnostics.get("stages", {})
        found = pd.DataFrame.from_dict(stages, orient="index", columns=["wall", "cpu", "peak_bytes"])
        return found.rename_axis("stage")


def _columns(sums: cluster_sums.ClusterSums) -> dict[str, NDArray[Any]]:
    ratios = cluster_sums.density_ratios(sums.gram)
    np.fill_diagonal(ratios, 0.0)
    nearest, largest = ratios.argmax(axis=1), ratios.max(axis=1)
    means = {
        name: np.divide(total, sums.counts, out=np.full(len(total), np.nan), where=sums.counts > 0)
        for name, total in (("posterior", sums.posterior), ("agreement", sums.agreement))
    }
    return {
        "rows": sums.counts,
        "share": sums.counts / max(1, sums.counts.sum()),
        **means,
        "nearest": np.where(largest > 0, nearest, -1),
        "density_ratio": largest,
    }
