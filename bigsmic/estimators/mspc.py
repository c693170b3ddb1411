"""scikit-learn clusterers by maximin separation probability and by within-cluster association."""

from typing import Literal

from bigsmic.estimators.base import Clusterer
from bigsmic.result import Result
from bigsmic.types import MemoryLimit, RandomState, Scale, StrPath


class MSPC(Clusterer):
    """Maximin separation probability clustering of rows, on disk or in memory: clusters on two sides of hyperplanes.

    Parameters
    ----------
    n_clusters : int
        2; more by splitting the cluster again whose split separates most rows.
    solver : {"mpm", "gep", "eig"}
        "mpm" raises the separation probability itself, "gep" a lower bound of it, in turns with the labels; "eig"
        relaxes the bound and is the first principal axis of standardised columns.
    reg : float or "auto"
        Multiple of the variances that is added to covariances.
    scale : {"standard", "range", "variance", None}
        What centred columns are divided by, for the k-means start.
    max_iter : int
        Labelings after the start at most.
    tol : float
        Share of the rows that may still change sides when a split has converged.
    out : str or Path, optional
        Run directory: the same fit resumes there, and the fitted estimator is pickled as the path.
    memory_limit : int or str, optional
        What the process may use, such as ``"1GiB"``.
    n_jobs : int, optional
        Threads; by default all processors that the process may use, as -1 says.
    random_state : int, RandomState or None
        Seed of the k-means start; None draws one, kept as ``seed_``.

    Attributes
    ----------
    labels_ : ndarray of int32, shape (n,)
    classes_ : ndarray of int, shape (c,)
        Columns of `predict_proba`.
    result_ : bigsmic.Result
        Separation probabilities, posteriors, diagnostics.
    seed_ : int
    n_iter_ : int
        Labelings after the start, of the split that took most.
    n_features_in_ : int

    References
    ----------
    .. [1] Huang, Zhang, Song, Chen, "Maximin separation probability clustering", AAAI 2015.

    Examples
    --------
    >>> from bigsmic import MSPC
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> labels = MSPC(random_state=0).fit_predict(X)
    >>> int((labels == labels[0]).sum())
    50
    """

    _method = "mspc"

    def __init__(
        self,
        n_clusters: int = 2,
        *,
        solver: Literal["mpm", "gep", "eig"] = "mpm",
        reg: float | Literal["auto"] = 1.0,
        scale: Scale | Literal["range"] = "standard",
        max_iter: int = 100,
        tol: float = 1e-5,
        out: StrPath | None = None,
        memory_limit: MemoryLimit = None,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.solver = solver
        self.reg = reg
        self.scale = scale
        self.max_iter = max_iter
        self.tol = tol
        self.out = out
        self.memory_limit = memory_limit
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _take(self, result: Result) -> None:
        self.n_iter_ = max((split["n_iter"] for split in result.diagnostics["splits"]), default=0)
