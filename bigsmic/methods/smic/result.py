"""Results of SMIC and related methods: candidates, agreement, merge trees and their cuts."""

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from bigsmic.errors import AbsentResultError
from bigsmic.methods.smic import evidence, tree_cuts, views
from bigsmic.methods.smic.evidence import Valleys
from bigsmic.methods.smic.views import Embedding
from bigsmic.result import IS_A_HINT, Result
from bigsmic.settings.smic import REPORTED_ROWS
from bigsmic.stages import distinct
from bigsmic.types import Integers, Rows
from bigsmic.views.clusters import SAMPLE_ROWS
from bigsmic.views.layout import Neighborhoods

MOSTLY = 0.9
"""Share of its rows from which on a cluster is named as noise."""
TREELESS = "has no labelings to cut, as it has few rows: fit again with a number"

if TYPE_CHECKING:
    import pandas as pd
    from scipy.sparse import csr_array


class LabelingsResult(Result):
    """Result of a fit that compares labelings: the candidates and their agreement."""

    _tells: ClassVar[dict[str, Any]] = {"number": None, "evidence": None, "choice": None}

    @cached_property
    def agreement(self) -> NDArray[np.float32]:
        """Share of the labelings that vote for the label of each row: ndarray of float32, shape (n,).

        1 everywhere if a single labeling was chosen.
        """
        return np.asarray(self._array("agreement"))

    @cached_property
    def scores(self) -> "pd.DataFrame":
        """All candidates as a pandas DataFrame, one row each, with the chosen ones marked.

        It has the LSMI of all candidates if LSMI chooses among them, and otherwise only of the medoid labeling; see
        :meth:`lsmi`.
        """
        import pandas as pd

        return pd.DataFrame(self.diagnostics.get("candidates", []))

    @property
    def embedding(self) -> Embedding:
        """Leading eigenvectors at every row, in input order: a lazy array of float32, shape (n, m), on disk.

        They are those of the medoid labeling, or the first of the fit if the number of clusters is open. Slice it, or
        load it with ``numpy.asarray``.
        """
        views.refuse_trivial(self._context, "embedding")
        return Embedding(self._context, views.central(self._context))

    def graph(self, rows: Integers | None = None, *, max_rows: int = SAMPLE_ROWS) -> "csr_array":
        """Affinities between rows: the weights of the graph of :attr:`embedding`, before normalisation.

        Parameters
        ----------
        rows : array_like of int, shape (m,), optional
            Distinct row numbers; by default all rows, in input order.
        max_rows : int
            Largest number of rows, as the matrix is made in memory.

        Returns
        -------
        affinities : scipy.sparse.csr_array of float32, shape (m, m)
            Symmetric, without diagonal; without links, even if the fit was given some.

        Raises
        ------
        InputError
            There are more than `max_rows` rows, row numbers are repeated or out of range, or the fit has no graph
            (:class:`~bigsmic.errors.AbsentResultError`).
        """
        return views.graph(self._context, rows, max_rows)

    def labelings(self, rows: Integers | None = None) -> NDArray[np.int32]:
        """Labels under every labeling of the fit, in the order of ``scores``.

        Parameters
        ----------
        rows : array_like of int, shape (m,), optional
            Distinct row numbers, such as those of :meth:`sample`; by default all rows.

        Returns
        -------
        labels : ndarray of int32, shape (n_labelings, m)
            The numbers of labels are unrelated between labelings, and to those of the result.

        Raises
        ------
        InputError
            Row numbers are repeated or out of range, or the fit made no labelings.
        """
        self._refuse_undecided("labelings")
        return views.labelings(self._context, rows)

    def lsmi(self, *, max_rows: int = REPORTED_ROWS) -> NDArray[np.float64]:
        """Squared-loss mutual information between rows and labels, under every labeling of the fit.

        A fit itself estimates it for all labelings only if it chooses by LSMI, and otherwise for its result and the
        medoid labeling.

        Parameters
        ----------
        max_rows : int
            Number of rows, drawn by hash, from which LSMI is estimated; at least 2.

        Returns
        -------
        lsmi : ndarray of float64, shape (n_labelings,)
            In the order of ``scores``; larger is better at an equal number of labels.

        Raises
        ------
        InputError
            `max_rows` is less than 2, the fit made no labelings, or its input was a graph.
        """
        self._refuse_undecided("lsmi")
        return views.lsmi_of_labelings(self._context, max_rows)

    def _neighborhoods(self, n_rows: int) -> Neighborhoods:
        if not views.has_graph(self._context):
            return super()._neighborhoods(n_rows)
        return views.neighborhoods(self._context, self.sample(n_rows))

    @cached_property
    def valleys(self) -> Valleys | None:
        """Evidence for the number of clusters, and valleys between the clusters of the result: a :class:`Valleys`.

        None if valleys were not tested: for a graph without features, another `assignment` or `selection`, or few rows;
        for a cut of a fit that found no number; and by 3SMIC if the number was given.
        """
        return evidence.read(self._context)

    def _cluster_columns(self) -> dict[str, NDArray[Any]]:
        found = {"stability": views.stability(self._context)} if views.has_graph(self._context) else {}
        return found | (self.valleys.of_clusters(self._n_columns) if self.valleys else {})

    def _open_line(self) -> str:
        return self.valleys.sentence if self.valleys else super()._open_line()

    @property
    def _can_be_cut(self) -> bool:
        """Whether a fit that left the number of clusters open has labelings for one."""
        return True

    def _open_reason(self) -> str:
        if self.valleys is None:
            return super()._open_reason()
        return f"found no valleys that would tell it; valleys.best, {self.valleys.best}, {IS_A_HINT}"

    def _choice_lines(self) -> list[str]:
        lines = [f"  valleys    {self.valleys.sentence}"] if self.valleys else []
        return [*self._chosen_lines(), *lines]

    def _chosen_lines(self) -> list[str]:
        rows = self.diagnostics.get("candidates", [])
        chosen = [row for row in rows if row["chosen"]]
        if not chosen:
            return []
        if len(chosen) == 1:
            row = chosen[0]
            what = f"kernel {row['kernel']}, t = {row['t']}, {row['columns']} eigenvectors, {row['assignment']}"
            score = f"; LSMI {row['lsmi']:.4f}" if "lsmi" in row else ""
            return [f"  chosen     {what}{score}, {len(rows)} labelings"]
        low, high = min(row["median_ari"] for row in chosen), max(row["median_ari"] for row in chosen)
        return [f"  consensus  of {len(chosen)} labelings, which agree to a median ARI of {low:.2f} to {high:.2f}"]


class SMICResult(LabelingsResult):
    """Result of a fit by SMIC, whose merge trees can be cut at other numbers of clusters."""

    _hint: ClassVar[str] = "stability"

    def cut(self, n_clusters: int) -> Self:
        """Result for another number of clusters, from the same eigenvectors, without another fit.

        The over-segmented labelings of the chosen set are cut at `n_clusters` and moved, and the consensus is formed
        again, by density and by valleys, between which the evidence decides as in a fit that is given the number.
        Labelings with fewer columns are left out. Cuts at different numbers need not nest. At the number that a fit has
        found, the labels are those of the fit.

        Parameters
        ----------
        n_clusters : int
            2 up to the columns of the widest labeling.

        Returns
        -------
        result : Result
            In a temporary directory, with labels, posterior, agreement and predictions of its own.

        Raises
        ------
        InputError
            The number is no integer or out of range, or the fit has no trees, as of a single cluster or of few
            distinct rows.
        """
        run, settings = tree_cuts.cut(self._run, self.settings, n_clusters)
        return type(self)(run, settings, temporary=True, base=self)

    def _choice_lines(self) -> list[str]:
        noise = self.diagnostics.get("noise")
        if not noise:
            return super()._choice_lines()
        line = f"  noise      {noise['rows']:,} rows ({noise['share']:.1%}) in no cluster"
        pairs = zip(self.diagnostics["output"]["cluster_sizes"], noise["next_to"], strict=True)
        of_noise = [str(y) for y, (left, taken) in enumerate(pairs) if taken > MOSTLY * (left + taken)]
        if of_noise:
            line += f", with nearly all rows of cluster{'s' * (len(of_noise) > 1)} {', '.join(of_noise)}"
        return [*super()._choice_lines(), line]

    @property
    def _can_be_cut(self) -> bool:
        return self.valleys is not None or tree_cuts.has_trees(self._context)

    def _open_line(self) -> str:
        return super()._open_line() if self._can_be_cut else f"The fit was given no number of clusters and {TREELESS}."

    def _open_reason(self) -> str:
        return super()._open_reason() if self._can_be_cut else TREELESS

    @cached_property
    def noise(self) -> NDArray[np.float32]:
        """Noise score of every row, for a fit with ``noise=True``: ndarray of float32, shape (n,).

        0 to 1; above .5 where the label is -1.
        """
        self._refuse_unasked()
        return np.asarray(self._array("noise"))

    def predict_noise(self, data: Rows, **options: Any) -> NDArray[np.float32]:
        """Noise scores of new rows, by a fit with ``noise=True``.

        Parameters
        ----------
        data : array_like, Zarr array, dask array or dataframe, path or URL, shape (m, d)
        **options
            As in :meth:`predict_proba`, except `out` and `overwrite`.

        Returns
        -------
        noise : ndarray of float32, shape (m,)
            0 to 1; above .5 where :meth:`predict` gives -1. If `data` is a dask array, a lazy dask array with its
            chunks.

        Raises
        ------
        InputError
            As in :meth:`predict_proba`, or the fit was without noise (:class:`~bigsmic.errors.AbsentResultError`).
        """
        self._refuse_unasked()
        found: NDArray[np.float32] = self._score("predict_noise", data, options)
        return found

    def _refuse_unasked(self) -> None:
        if not self.settings.finds_noise:
            raise AbsentResultError("noise: the fit did not look for rows in no cluster; fit with noise=True")

    @cached_property
    def tree(self) -> NDArray[np.float64]:
        """Merge tree of the medoid labeling as a linkage matrix of scipy: ndarray of float64, shape (m - 1, 4).

        Leaves are its columns; heights are the running maximum of ``-log r``, shifted to start at 0, with r the density
        ratio of the merged groups. `tree_sizes` has the rows below every merge.

        Raises
        ------
        InputError
            The fit has no trees, as of a single cluster or of few distinct rows.
        """
        tree: NDArray[np.float64] = self._medoid_tree()[0].linkage()
        return tree

    @cached_property
    def tree_sizes(self) -> NDArray[np.int64]:
        """Rows below every merge of `tree`: ndarray of int64, shape (m - 1,)."""
        tree, counts = self._medoid_tree()
        sizes: NDArray[np.int64] = tree.sizes(counts.astype(np.int64))
        return sizes

    def _medoid_tree(self) -> tuple[Any, NDArray[np.float64]]:
        distinct.refuse_cut(self._context)
        return tree_cuts.medoid_tree(self._context)

    @cached_property
    def stability(self) -> "pd.Series":
        """Agreement of the labelings at every number of clusters: a pandas Series of mean pairwise ARI.

        It is only a hint: on data with known classes its peak was as often wrong as right. Local moving is left out,
        and rows are sampled.

        Raises
        ------
        AbsentResultError
            The fit has no labelings to cut, as it has few rows.
        """
        import pandas as pd

        distinct.refuse_cut(self._context)
        numbers, mean_ari = tree_cuts.stability(self._context)
        return pd.Series(mean_ari, index=pd.Index(numbers, name="n_clusters"), name="mean_ari")
