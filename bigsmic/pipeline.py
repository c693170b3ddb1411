"""A fit, from rows to labels: scan -> route -> neighbors -> graph -> eigen -> assign -> select -> output."""

import os
from contextlib import contextmanager
from dataclasses import dataclass

from bigsmic import planning
from bigsmic.context import Context, Job, with_repair
from bigsmic.engine import ThreadEngine
from bigsmic.errors import InputError
from bigsmic.report import diagnose
from bigsmic.result import Result
from bigsmic.settings import UNSET, parse_bytes, resolve, warn_of_cuts
from bigsmic.stages import assign, eigen, graph, neighbors, output, repair, route, scan, select
from bigsmic.store import Run, open_source, remove_tree, temporary_run


@dataclass(frozen=True)
class Place:
    """Where and how a fit runs; nothing here changes its labels.

    Parameters
    ----------
    out : str or Path, optional
        Run directory; a temporary one by default, deleted with the Result.
    storage_options : dict, optional
        For file systems behind URLs; never written anywhere.
    memory_limit : int or str, optional
        What the process may use, interpreter included, such as ``"1GiB"``.
    n_threads : int, optional
        Tasks at once; by default the processors that the process may use.
    progress : callable, optional
        ``progress(stage, done, total)``.
    """

    out: str | os.PathLike | None = None
    storage_options: dict | None = None
    memory_limit: int | str | None = None
    n_threads: int | None = None
    progress: object = None

    @property
    def threads(self):
        """Tasks at once."""
        return self.n_threads or len(os.sched_getaffinity(0))


def fit(
    data,
    c,
    *,
    out=None,
    t=UNSET,
    assignment=UNSET,
    selection=UNSET,
    kernel=UNSET,
    rotation=None,
    prior=UNSET,
    preset=None,
    scale=UNSET,
    bandwidth=UNSET,
    repair=UNSET,
    memory_limit=None,
    seed=0,
    neighbors=UNSET,
    n_neighbors=UNSET,
    n_centers=UNSET,
    lsmi_rows=UNSET,
    component=None,
    storage_options=None,
    missing_chunks="error",
    n_threads=None,
    progress=None,
):
    """Cluster rows, on disk or in memory, into c clusters.

    Rows -> nearest neighbours -> sparse local-scaling kernel -> its top eigenvectors -> labelings [1]_ -> their
    consensus, or the one of largest squared-loss mutual information.

    Parameters
    ----------
    data : str, Path, zarr.Array, dask array or array_like, shape (n, d)
        A path or URL names a Zarr v2 or v3 array, or a group together with `component`. Any real or integer dtype.
        Rows are read in blocks and never held as a whole, unless they came in memory.
    c : int
        Number of clusters, 1 to n.
    out : str or Path, optional
        Run directory, in which the same call resumes after an interruption. By default a temporary one that lives as
        long as the Result.
    t : int or sequence of int
        Neighbour numbers of the kernel; by default (5, 7, 10), and (3, 5, 7, 10) without merging.
    assignment : {"merge", "rotation", "paper", "auto"}
        How eigenvectors become labels. "merge", the default: up to 2.5 c of them, turned, over-segmented, merged by the
        density ratio and moved along the graph. "rotation": c of them, turned. "paper": c of them with a sign each, as
        published. "auto": both of the last two are candidates.
    selection : {"consensus", "lsmi", "medoid"}
        What is returned of several labelings: what they agree on (default with "merge"), the one of largest LSMI
        (default otherwise), or the one most like the others.
    kernel : {"auto", "local_scaling", "normalized"} or callable
        K of [1]_ eq. (7), or ``D^-1/2 K D^-1/2``; "auto" is the latter for "merge" and both otherwise. A callable
        ``f(squared_distances, sigma_i, sigma_j) -> weights`` works elementwise on the edges of the neighbour graph; it
        must be symmetric, and return finite weights of at least 0.
    rotation : {None, "auto", True, False}
        Short for assignment "auto", "rotation" and "paper".
    prior : array_like of float, shape (c,), optional
        Class prior, positive, sum 1; uniform by default. A non-uniform one implies assignment "paper".
    preset : {None, "paper"}
        "paper": kernel of eq. (7), signs, t = 1..10, 200 centres, published grids, no repair of the graph.
    scale : {"standard", "variance", None}
        Divide the centred columns by their standard deviation (default), by their variance, or by nothing. Constant
        columns become 0.
    bandwidth : float
        ``exp(-d^2 / (bandwidth s_i s_j))``: 2 (default) as in [1]_, 1 as in self-tuning spectral clustering.
    repair : bool
        Connect the components of the neighbour graph by their shortest way out (default).
    memory_limit : int or str, optional
        What the process may use, interpreter included, such as ``"1GiB"``. It changes time and disk, never labels.
    seed : int
        Same data, seed and settings give the same labels, whatever the threads or the memory limit.
    neighbors : {"auto", "exact", "pynndescent"}
        Search inside the cells into which the rows are cut.
    n_neighbors : int
        Neighbours kept per row, 20 by default; at least the largest t.
    n_centers : int
        Gaussians of the LSMI estimate; 800 by default.
    lsmi_rows : int or None
        Rows, drawn by hash, on which LSMI is estimated; 200,000 by default, None for all.
    component : str, optional
        Array within a Zarr group.
    storage_options : dict, optional
        For file systems behind URLs; never written anywhere.
    missing_chunks : {"error", "fill"}
        What an absent chunk of the archive is.
    n_threads : int, optional
        Tasks at once; by default the processors that the process may use.
    progress : callable, optional
        ``progress(stage, done, total)``, called from the threads that work.

    Returns
    -------
    result : Result

    Raises
    ------
    InputError
        Data or parameters that cannot be used: wrong rank, NaN (:class:`~bigsmic.errors.NonFiniteError`), c > n, ...
    PlanError
        The memory limit cannot be met; nothing has run.
    RunError
        `out` belongs to other input or parameters, is of a newer format, or is being written by another process.
    StorageError
        A chunk is missing or torn, or the disk is full; what is finished is kept, the same call resumes.

    Warns
    -----
    BigsmicWarning
        Parameters that were given and had to be cut to what n rows allow; an eigensolve that did not converge.

    References
    ----------
    .. [1] Sugiyama, Niu, Yamada, Kimura, Hachiya, "Information-maximization clustering based on squared-loss mutual
       information", Neural Computation 26(1), 2014. doi:10.1162/NECO_a_00534

    Examples
    --------
    >>> import bigsmic
    >>> from sklearn.datasets import load_iris
    >>> result = bigsmic.fit(load_iris().data, c=3)
    >>> result.labels.shape, result.posterior.shape
    ((150,), (150, 3))
    """
    given = {
        "t": t,
        "assignment": assignment,
        "selection": selection,
        "kernel": kernel,
        "prior": prior,
        "scale": scale,
        "bandwidth": bandwidth,
        "repair": repair,
        "seed": seed,
        "neighbors": neighbors,
        "n_neighbors": n_neighbors,
        "n_centers": n_centers,
        "lsmi_rows": lsmi_rows,
    }
    settings = resolve(c, preset, rotation, **given)
    source = open_source(data, component, storage_options, missing_chunks)
    place = Place(out, storage_options, memory_limit, n_threads, progress)
    return fit_source(source, settings, place, {name for name, value in given.items() if value is not UNSET})


def fit_source(source, settings, place, given=()):
    """Fit rows that are open for reading; see :func:`fit`."""
    n, d = source.shape
    _check_shape(n, d, settings.n_clusters)
    settings, cuts = settings.fitted_to(n)
    warn_of_cuts(cuts, given)
    plan = planning.plan(
        planning.Size(n, d, source.dtype.itemsize, source.band_bytes),
        settings,
        parse_bytes(place.memory_limit),
        place.threads,
    )
    with _run_directory(place) as run:
        run.bind({"input": source.describe(), "settings": settings.identity()})
        with ThreadEngine(place.threads) as engine:
            job = Job(Context(source, run, settings), engine, plan, place.progress)
            with_repair(run, lambda: _stages(job))
            diagnose(job, cuts)
    kernel = settings.kernel if callable(settings.kernel) else None
    return Result(run.location, place.storage_options, kernel, temporary=place.out is None)


def _stages(job):
    """The pipeline: each stage does what the ledger lacks."""
    plan = job.plan
    with job.timed("scan"):
        scan.run(job, plan.sample_rows)
    if job.context.settings.n_clusters == 1:
        output.run_single(job)
        return
    if not neighbors.is_done(job.context):
        with job.timed("route"):
            route.run(job)
        with job.timed("neighbors"):
            neighbors.run(job)
    with job.timed("graph"):
        graph.run(job)
        repair.run(job)
    with job.timed("eigen"):
        eigen.run(job)
    with job.timed("assign"):
        assign.run(job)
    with job.timed("select"):
        select.run(job, plan.n_gammas)
    with job.timed("output"):
        output.run(job)


def _check_shape(n, d, c):
    if n == 0:
        raise InputError("input: Found array with 0 sample(s): got shape (0, d), at least 2 rows are needed")
    if d == 0:
        raise InputError(f"input: Found array with 0 feature(s) (shape=({n}, 0)) while a minimum of 1 is required.")
    if n == 1:
        raise InputError("input: got n_samples=1; clustering needs at least 2 rows")
    if c > n:
        raise InputError(f"c: got {c} clusters for {n} rows; use at most {n}")


@contextmanager
def _run_directory(place):
    """A run directory that is open and locked; a temporary one goes if the fit fails."""
    location = temporary_run() if place.out is None else os.fspath(place.out)
    try:
        run = Run(location, place.storage_options)
        try:
            yield run
        finally:
            run.close()
    except BaseException:
        if place.out is None:
            remove_tree(location)
        raise
