"""scikit-learn clusterers by regularised information maximisation with kernels."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, Self

from numpy.typing import ArrayLike
from sklearn.utils import Tags

from bigsmic.estimators.base import Clusterer
from bigsmic.result import Result
from bigsmic.types import MemoryLimit, RandomState, Rows, Scale, StrPath


class KernelRIM(Clusterer):
    """Regularized information maximization with a kernel: clusters of rows, on disk or in memory.

    Linear RIM on features of the kernel, which are made of the rows as they are read; with "local_scaling", on the
    sparse kernel of the neighbour graph.

    Parameters
    ----------
    n_clusters : int, optional
        The strength of the penalty is found at which so many categories stay alive. None: as many as do at `reg`.
    kernel : str or callable
        "rbf", "laplacian", or another name that scikit-learn's pairwise kernels have; a function ``k(X, Y)`` of scaled
        rows; "precomputed": X holds the kernel's values, (n, n), and those with the fitted rows in `predict`;
        "local_scaling".
    length_scale : float, optional
        Of "rbf", ``exp(-|x - y|^2 / (2 l^2))``, and "laplacian", ``exp(-|x - y|_1 / l)``, for scaled rows; by default
        the median distance.
    approximation : {"nystrom", "fourier"}
        Features from landmarks, or random ones, of "rbf" alone.
    n_components : int
        Landmarks or random features; from n on Nystrom's features are exact.
    t : int or sequence of int
        Neighbour number of "local_scaling"; MLMI chooses among several.
    bandwidth : float
        Of "local_scaling".
    reg : float or str, optional
        Strength of the penalty; ``"2/N"``: over the number of rows; ``"lsmi"``: by squared-loss mutual information.
        None: found for `n_clusters`, or 4/N; 0.5/N with "local_scaling".
    solver : {"auto", "minibatch", "lbfgs"}
        Adam on batches, or exact gradients; "auto": the latter where all rows are no more than a batch.
    n_init_categories : int, optional
        Categories to begin with.
    prior : array_like of float, shape (n_clusters,), or "power", optional
        Shares of the clusters.
    tau : float
        Weight of the information against labels that are given.
    scale : {"standard", "variance", None}
        What centred columns are divided by before the kernel.
    max_iter : int
        Iterations at most, of L-BFGS and with "local_scaling".
    batch_size : int
        Rows of a batch.
    learning_rate : float
        Of Adam: about how far its first step moves the logits of a row.
    n_epochs : int, optional
        Passes over the rows at each strength.
    polish : int
        Iterations of L-BFGS after the last batch.
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
    result_ : bigsmic.Result
        Posteriors, diagnostics.
    seed_ : int
    n_iter_ : int
        Strengths that were tried; iterations with "local_scaling".
    n_features_in_ : int

    See Also
    --------
    MIC : The neighbour graph, with its neighbour number chosen.

    References
    ----------
    .. [1] Gomes, Krause, Perona, "Discriminative clustering by regularized information maximization", NIPS 2010.

    Examples
    --------
    >>> from bigsmic import KernelRIM
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> KernelRIM(3, random_state=0).fit(X).predict_proba(X[:5]).shape
    (5, 3)
    """

    _method = "kernel_rim"

    def __init__(
        self,
        n_clusters: int | None = None,
        *,
        kernel: str | Callable[..., Any] = "rbf",
        length_scale: float | None = None,
        approximation: Literal["nystrom", "fourier"] = "nystrom",
        n_components: int = 256,
        t: int | Sequence[int] = 7,
        bandwidth: float = 2.0,
        reg: float | str | None = None,
        solver: Literal["auto", "minibatch", "lbfgs"] = "auto",
        n_init_categories: int | None = None,
        prior: ArrayLike | Literal["power"] | None = None,
        tau: float = 1.0,
        scale: Scale = "standard",
        max_iter: int = 200,
        batch_size: int = 2048,
        learning_rate: float = 0.3,
        n_epochs: int | None = None,
        polish: int = 0,
        out: StrPath | None = None,
        memory_limit: MemoryLimit = None,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.kernel = kernel
        self.length_scale = length_scale
        self.approximation = approximation
        self.n_components = n_components
        self.t = t
        self.bandwidth = bandwidth
        self.reg = reg
        self.solver = solver
        self.n_init_categories = n_init_categories
        self.prior = prior
        self.tau = tau
        self.scale = scale
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.n_epochs = n_epochs
        self.polish = polish
        self.out = out
        self.memory_limit = memory_limit
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(
        self, X: Rows, y: object = None, *, labels: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Cluster the rows of X.

        Parameters
        ----------
        X : array_like, Zarr array, dask array or dataframe, or path, shape (n, d)
            Arrays out of core are read in blocks and never held.
        y : ignored
        labels : array_like of int, shape (n,), optional
            Known categories 0, 1, ..; -1 where there is none. They are clusters of the same numbers. Not with
            "local_scaling".
        sample_weight : array_like of float, shape (n,), optional
            At least 0. Not with "local_scaling".

        Returns
        -------
        self
        """
        return self._fit(X, labels=labels, sample_weight=sample_weight)

    def _take(self, result: Result) -> None:
        chosen = [found["n_iter"] for found in result.diagnostics.get("ascents", []) if found["chosen"]]
        self.n_iter_ = chosen[0] if chosen else max(1, len(result.diagnostics.get("path", [])))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = isinstance(self.kernel, str) and self.kernel == "precomputed"
        return tags
