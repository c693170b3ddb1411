"""scikit-learn clusterer by SMIC with links."""

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from bigsmic.errors import InputError
from bigsmic.estimators.base import Clusterer
from bigsmic.result import Result
from bigsmic.store.side_inputs import read_array
from bigsmic.types import Labels, MemoryLimit, NeighborSearch, RandomState, Rows, Scale, StrPath

UNKNOWN = -1
"""Label of rows without a known one, here and in scikit-learn."""


class SemiSupervisedSMIC(Clusterer):
    """Squared-loss mutual information clustering of rows, on disk or in memory, with must-links and cannot-links [1]_.

    Parameters
    ----------
    n_clusters : int, sequence of int, or None
        Number of clusters, c. With None, or a range that limits it, ``(least, most)`` or ``range(least, most + 1)``, as
        many as valleys and links separate. If they show none, all rows are one cluster, with a ConvergenceWarning about
        the evidence, and `result_` has no labels but can be cut.
    {options}

    Attributes
    ----------
    labels_ : ndarray of int32, shape (n,)
    classes_ : ndarray of int, shape (c,)
        Columns of `predict_proba`.
    n_clusters_ : int
        Number of clusters, given or found.
    result_ : bigsmic.methods.semisupervised.Result
        Scores, posteriors, diagnostics, and the links that are violated.
    seed_ : int
    n_iter_ : int
        One more than the largest number of restarts of the eigensolver.
    n_features_in_ : int

    References
    ----------
    .. [1] Calandriello, Niu, Sugiyama, "Semi-supervised information-maximization clustering", Neural Networks 57, 2014.
       doi:10.1016/j.neunet.2014.05.016

    Examples
    --------
    >>> from bigsmic import SemiSupervisedSMIC
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> links = {"must_links": [[52, 60], [101, 110]], "cannot_links": [[52, 101]]}
    >>> model = SemiSupervisedSMIC(3, random_state=0).fit(X, **links)
    >>> model.result_.n_violated
    0

    Known labels of some rows, in the place of links:

    >>> known = [label if row % 10 == 0 else -1 for row, label in enumerate(y)]
    >>> SemiSupervisedSMIC(3, random_state=0).fit(X, known).result_.n_links
    105
    """

    _method = "3smic"

    def __init__(
        self,
        n_clusters: int | Sequence[int] | None = 8,
        *,
        t: int | Sequence[int] | None = None,
        valleys: bool = True,
        normalization: Literal["auto", "symmetric"] | None = "symmetric",
        assignment: Literal["auto", "rotation", "paper", "merge"] | None = None,
        selection: Literal["consensus", "links"] = "consensus",
        gamma: float | Sequence[float] = (0.0, 1.0),
        eta: float | Sequence[float] | None = None,
        link_weight: float = 10.0,
        close_links: bool = False,
        scale: Scale = "auto",
        bandwidth: float = 2.0,
        repair: bool = True,
        neighbors: NeighborSearch = "auto",
        n_neighbors: int = 20,
        n_candidates: int | None = None,
        n_components: int | None = 50,
        n_centers: int = 800,
        lsmi_rows: int | None = 20_000,
        max_matvecs: int | None = None,
        out: StrPath | None = None,
        memory_limit: MemoryLimit = None,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self._keep(locals())

    def fit(
        self,
        X: Rows,
        y: object = None,
        *,
        must_links: Rows | None = None,
        cannot_links: Rows | None = None,
        labels: Rows | None = None,
    ) -> Self:
        """Cluster the rows of X.

        Parameters
        ----------
        X : array_like, Zarr array, dask array or dataframe, or path, shape (n, d)
            Out-of-core arrays are read in blocks, and never held whole.
        y : array_like of int, shape (n,), optional
            Known labels where it has a -1, as scikit-learn marks unlabelled rows; the same as `labels`, but whole
            numbers may be floats, as after ``fillna(-1)``. A y without -1 is ignored, as by other clusterers: scores
            and searches pass true labels, which are not for the fit.
        must_links, cannot_links : array_like of int, shape (m, 2), Zarr array or path, optional
            Pairs of row numbers.
        labels : array_like of int, shape (n,), Zarr array or path, optional
            Known labels, -1 for unknown; they link all labelled rows, and do not determine the numbers of the clusters.

        Returns
        -------
        self

        Raises
        ------
        InputError
            X, links or labels cannot be used, both `labels` and a y with -1 are given, or some of y is NaN.
        """
        known = _partial(y)
        if known is not None and labels is not None:
            raise InputError(
                "y: got known labels, marked by -1, and labels= as well; give them once, or a y without -1, which is "
                "ignored"
            )
        labels = known if labels is None else labels
        return self._fit(X, must_links=must_links, cannot_links=cannot_links, labels=labels)

    def fit_predict(self, X: Rows, y: object = None, **side_inputs: Any) -> Labels:
        """Labels of the rows of X after :meth:`fit`, which takes the same arguments: int32, shape (n,)."""
        return self.fit(X, y, **side_inputs).labels_  # scikit-learn's own leaves out y

    def _take(self, result: Result) -> None:
        self.n_iter_ = 1 + max(
            (eigenproblem["n_restarts"] for eigenproblem in result.diagnostics.get("eigen", [])), default=0
        )


def _partial(y: Any) -> NDArray[Any] | None:
    """Labels, if some of them are marked as unknown; None for a y that is complete, or no labels."""
    found = read_array("y", y)
    if found is None or found.dtype.kind not in "iufO":  # such as texts, or truth values
        return None
    try:
        numbers = found.astype(np.float64)
    except (TypeError, ValueError):  # words
        return None
    missing = np.isnan(numbers)
    if missing.any() and not missing.all():
        raise InputError("y: got NaN or None in some rows; give -1 to rows whose label is unknown, or no y")
    if not (numbers == UNKNOWN).any() or (numbers % 1 != 0).any():
        return None
    labels: NDArray[np.int64] = numbers.astype(np.int64)
    return labels
