"""scikit-learn clusterer on SMIC with links."""

from collections.abc import Sequence
from typing import Literal, Self

from bigsmic.estimators.base import Clusterer
from bigsmic.result import Result
from bigsmic.types import MemoryLimit, NeighborSearch, RandomState, Rows, Scale, StrPath


class SemiSupervisedSMIC(Clusterer):
    """Squared-loss mutual information clustering of rows, on disk or in memory, with must-links and cannot-links [1]_.

    Parameters
    ----------
    n_clusters : int
        Number of clusters, c.
    t : tuple of int, optional
        Candidate neighbour numbers of the local-scaling kernel.
    kernel : {"normalized", "local_scaling", "auto"}
        "auto": both are candidates.
    assignment : {"auto", "rotation", "paper", "merge"}, optional
        How eigenvectors become labels; by default "rotation" with two clusters, and "merge" with more; "auto" has
        "rotation" and "paper" for candidates.
    selection : {"consensus", "links"}
        The consensus of the labelings of largest criterion, in which rows settle between neighbours and links, or the
        one of largest criterion, as published.
    gamma, eta : sequence of float
        Candidate strengths of must-links and, of two clusters, of cannot-links.
    link_weight : float
        Of violated links against information in the criterion; 1 as published.
    close_links : bool
        Add the links that follow from those given.
    scale : {"standard", "variance", None}
        Divide the centred columns by their standard deviation, by their variance, or by nothing.
    bandwidth : float
        2 as in SMIC's local scaling, 1 as in self-tuning spectral clustering.
    repair : bool
        Connect the components of the neighbour graph.
    neighbors : {"auto", "exact", "pynndescent"}
        Search inside the cells into which the rows are cut.
    n_neighbors : int
        Neighbours kept per row; at least the largest t.
    n_centers : int
        Gaussians of the LSMI estimate.
    lsmi_rows : int or None
        Rows on which LSMI is estimated; None for all.
    max_matvecs : int, optional
        Products of the matrix that an eigensolve may take.
    out : str or Path, optional
        Run directory: the same fit resumes there, and the fitted estimator is pickled as the path.
    memory_limit : int or str, optional
        What the process may use, such as ``"1GiB"``.
    n_jobs : int, optional
        Threads; by default all processors that the process may use, as -1 says.
    random_state : int, RandomState or None
        Seed; None draws one, kept as ``seed_``.

    Attributes
    ----------
    labels_ : ndarray of int32, shape (n,)
    classes_ : ndarray of int, shape (c,)
        Columns of `predict_proba`.
    result_ : bigsmic.methods.semisupervised.Result
        Scores, posteriors, diagnostics, and the links that are violated.
    seed_ : int
    n_iter_ : int
        Restarts of the eigensolver, of the eigenproblem that took most, and 1.
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
    """

    _method = "3smic"

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        t: int | Sequence[int] | None = None,
        kernel: Literal["normalized", "local_scaling", "auto"] = "normalized",
        assignment: Literal["auto", "rotation", "paper", "merge"] | None = None,
        selection: Literal["consensus", "links"] = "consensus",
        gamma: float | Sequence[float] = (0.0, 1.0),
        eta: float | Sequence[float] | None = None,
        link_weight: float = 10.0,
        close_links: bool = False,
        scale: Scale = "standard",
        bandwidth: float = 2.0,
        repair: bool = True,
        neighbors: NeighborSearch = "auto",
        n_neighbors: int = 20,
        n_centers: int = 800,
        lsmi_rows: int | None = 200_000,
        max_matvecs: int | None = None,
        out: StrPath | None = None,
        memory_limit: MemoryLimit = None,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.t = t
        self.kernel = kernel
        self.assignment = assignment
        self.selection = selection
        self.gamma = gamma
        self.eta = eta
        self.link_weight = link_weight
        self.close_links = close_links
        self.scale = scale
        self.bandwidth = bandwidth
        self.repair = repair
        self.neighbors = neighbors
        self.n_neighbors = n_neighbors
        self.n_centers = n_centers
        self.lsmi_rows = lsmi_rows
        self.max_matvecs = max_matvecs
        self.out = out
        self.memory_limit = memory_limit
        self.n_jobs = n_jobs
        self.random_state = random_state

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
            Arrays out of core are read in blocks and never held.
        y : ignored
        must_links, cannot_links : array_like of int, shape (m, 2), Zarr array or path, optional
            Pairs of row numbers.
        labels : array_like of int, shape (n,), Zarr array or path, optional
            Known labels, -1 where there is none; they link all rows that have one, and do not number the clusters.

        Returns
        -------
        self
        """
        return self._fit(X, must_links=must_links, cannot_links=cannot_links, labels=labels)

    def _take(self, result: Result) -> None:
        self.n_iter_ = 1 + max(
            (eigenproblem["n_restarts"] for eigenproblem in result.diagnostics.get("eigen", [])), default=0
        )
