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
from bigsmic.stages import assign, eigen, graph, neighbors, output, route, scan, select
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


def fit(  # noqa: PLR0913 - the front door spells out its parameters
    data,
    c,
    *,
    out=None,
    t=UNSET,
    kernel=UNSET,
    rotation=UNSET,
    prior=UNSET,
    preset=None,
    scale=UNSET,
    bandwidth=UNSET,
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
    settings = resolve(
        c,
        preset,
        t=t,
        kernel=kernel,
        rotation=rotation,
        prior=prior,
        scale=scale,
        bandwidth=bandwidth,
        seed=seed,
        neighbors=neighbors,
        n_neighbors=n_neighbors,
        n_centers=n_centers,
        lsmi_rows=lsmi_rows,
    )
    source = open_source(data, component, storage_options, missing_chunks)
    place = Place(out, storage_options, memory_limit, n_threads, progress)
    given = {
        name for name, value in (("t", t), ("n_neighbors", n_neighbors), ("n_centers", n_centers)) if value is not UNSET
    }
    return fit_source(source, settings, place, given)


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
