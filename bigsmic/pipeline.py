"""A fit from rows to labels: the request is checked and planned, then the method's stages run."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, Self

import numpy as np

from bigsmic import registry
from bigsmic.continuity import numbers
from bigsmic.engines import choose_engine
from bigsmic.engines.base import Engine, Resources
from bigsmic.engines.memory import lies_in_memory, share_arena
from bigsmic.errors import InputError, PlanError
from bigsmic.labelled import coordinates_of
from bigsmic.numerics.selection import Selection
from bigsmic.result import Result
from bigsmic.resuming import bind, open_run
from bigsmic.runtime import planning
from bigsmic.runtime.block_sizes import BlockSizes, or_default
from bigsmic.runtime.context import Context
from bigsmic.runtime.diagnostics import diagnose
from bigsmic.runtime.duration import Duration, Rates, duration_of
from bigsmic.runtime.job import Job, with_repair
from bigsmic.runtime.options import RunOptions
from bigsmic.runtime.planning import GraphSize, Plan
from bigsmic.runtime.progress import reported
from bigsmic.settings import UNSET, MethodSettings
from bigsmic.settings.signatures import takes_options_of
from bigsmic.settings.smic import Settings
from bigsmic.stages import columns, distinct, novelty, numbering, recovery, selected
from bigsmic.stages.checkpoints import interval
from bigsmic.store import (
    HELD_BYTES,
    Run,
    Source,
    SparseSource,
    absolute,
    as_location,
    checksum,
    open_source,
    remove_unfinished,
    select_rows,
    temporary_run,
)
from bigsmic.types import (
    Client,
    MemoryLimit,
    Progress,
    Rows,
    StorageOptions,
    StrPath,
)
from bigsmic.validation import CLUSTERS, check_integer, parse_bytes, warn_of_cuts
from bigsmic.warning import warn
from bigsmic.weight_functions import refuse_nameless

FEW_ROWS = 50  # with no more rows, and ten times as many columns, a fit warns


@takes_options_of(Settings)
def fit(
    data: Rows,
    c: int | Sequence[int] | None = None,
    *,
    method: str = registry.DEFAULT,
    out: StrPath | None = None,
    like: "StrPath | Result | None" = None,
    memory_limit: MemoryLimit = None,
    component: str | None = None,
    rows: slice | Selection | None = None,
    storage_options: StorageOptions = None,
    missing_chunks: Literal["error", "fill"] = "error",
    n_threads: int | None = None,
    progress: Progress = None,
    client: Client = None,
    scheduler: str | None = None,
    engine: Engine | None = None,
    performance_report: StrPath | None = None,
    block_sizes: BlockSizes | None = None,
    **options: Any,
) -> Result:
    """Cluster rows on disk or in memory into c clusters.

    Rows -> nearest neighbours -> sparse local-scaling kernel -> its top eigenvectors -> labelings [1]_ -> their
    consensus, or the one of largest squared-loss mutual information.

    Parameters
    ----------
    data : str, Path, zarr.Array, dask array or dataframe, xarray.DataArray or array_like, shape (n, d)
        A path or URL names a Zarr v2 or v3 array, or, with `component`, a group; a path may also name a ``.npy`` file,
        or a ``.csv``, ``.tsv`` or ``.parquet`` table. Datasets of h5py and archives of windows are rows, too; a graph
        is a sparse matrix, see `metric` and `kernel`. Any real or integer dtype. Rows are read in blocks and never
        held as a whole, unless they are in memory already. Those of a dask dataframe are counted first, which computes
        it once.
    c : int, None, or sequence of int
        Number of clusters, 1 to n. With None, it is found if valleys of the density separate the clusters; a range,
        ``(least, most)`` or ``range(least, most + 1)``, limits the search. ``Result.valleys`` has the evidence. If
        there are no valleys, or they are not tested (a graph, fewer than 12 rows, ``valleys=False``), the Result has
        labels only after `cut`. 3SMIC finds it from valleys and links, RIM and kernel RIM keep as many clusters as
        their penalty leaves alive, and other methods need a number.
    method : str
        Name of the method. The options below are those of the default, "smic". Another method has its own options,
        which are also the parameters of its estimator, such as :class:`bigsmic.RIM`; options that it lacks are refused.
    out : str or Path, optional
        Run directory, in which the same call resumes after an interruption. By default a temporary one, which is
        deleted with the Result.
    like : str, Path or Result, optional
        A finished run of an earlier state of the rows, or of other rows with the same columns. A cluster that continues
        one of that run takes its number and name; other clusters get new numbers. ``Result.matched`` has the
        correspondence.
    memory_limit : int or str, optional
        Memory that the process may use, interpreter included, such as ``"1GiB"``; by default three quarters of that of
        the machine or container. On a cluster, that of each worker, at most the share at which Dask pauses it. It
        affects time and disk, never labels.
    component : str, optional
        Array within a group of Zarr or HDF5; of a table, names of columns, separated by commas.
    rows : slice or bigsmic.numerics.selection.Selection, optional
        Rows to fit instead of all: consecutive ones, such as ``slice(-100_000, None)``, or any selection. In an archive
        of :func:`bigsmic.features.windows`, invalid rows are left out too. Labels are those of the fitted rows, whose
        numbers in the archive are in ``Result.rows``; ``Result.archive_labels`` has -1 for the others.
    storage_options : dict, optional
        For file systems behind URLs; never written anywhere.
    missing_chunks : {"error", "fill"}
        Whether an absent chunk of the archive is an error, or is read as fill values.
    n_threads : int, optional
        Number of concurrent tasks; by default the number of processors that the process may use.
    progress : bool or callable, optional
        True shows on stderr, for every step, blocks done, rows per second and the remaining time: on a terminal as one
        line that changes, elsewhere as a line every half minute. A function is called as ``progress(stage, done,
        total)`` when a stage begins and after every block, on the thread that called `fit`; blocks of an earlier call
        count as done.
    client : distributed.Client, optional
        Run on this Dask cluster. All its workers must be able to read `data` and write `out`, as they share only the
        store. By default the active client; if there is none, or with False, threads of this process. The labels are
        the same.
    scheduler : str, optional
        Address of the scheduler of a cluster, such as ``"tcp://host:8786"``.
    engine : bigsmic.engines.base.Engine, optional
        An object of that protocol, on which tasks run instead of threads or a cluster. It is used as a context manager.
    performance_report : str or Path, optional
        HTML file for Dask's report of the run, :class:`distributed.performance_report`. Only on a cluster; needs bokeh
        where the scheduler runs.
    block_sizes : bigsmic.runtime.block_sizes.BlockSizes, optional
        Sizes of the blocks of rows, for tests and for machines that the default does not suit. Labels depend on them as
        on a seed: a run is resumed with the sizes with which it was started, and refuses others.
    {options}

    Returns
    -------
    result : Result

    Raises
    ------
    InputError
        Data or parameters cannot be used: wrong number of dimensions, NaN (:class:`~bigsmic.errors.NonFiniteError`), c
        > n, an option that the method lacks (:class:`~bigsmic.errors.OptionError`), ...
    PlanError
        The memory limit cannot be met; nothing has run.
    RunError
        `out` belongs to other input or parameters, has another format, or is being written by another process.
    StorageError
        A chunk is missing or torn, or the disk is full. Finished blocks are kept in `out`, and the same call resumes.
    ClusterError
        The scheduler does not answer, workers cannot be used, or they are lost repeatedly. The same call resumes.

    Warns
    -----
    BigsmicWarning
        A given parameter was reduced to what n rows allow, an eigensolve did not converge, the data speak against the
        number of clusters or look transposed, or the processors of a cluster do not all compute the same bits.

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
    run_options = {name: value for name, value in locals().items() if name not in ("data", "c", "options")}
    request = _Request.of(data, c, run_options, options)
    with request.open_engine() as opened:
        planned = request.plan(opened.resources)
        with (
            opened.recorded(performance_report),  # what it refuses must not leave a run behind
            _run_directory(request.run_options, planned.held_bytes) as run,
        ):
            bind(run, request.identity(), request.settings, request.source)
            _fill(run, request, opened, planned)
    weight = getattr(request.settings, "kernel", None)
    weight = weight if callable(weight) else None
    result = Result.open(run.address, storage_options=storage_options, kernel=weight, temporary=out is None)
    return result._of_rows(coordinates_of(data))


def plan(
    data: Rows,
    c: int | Sequence[int] | None = None,
    *,
    n_rows: int | None = None,
    n_workers: int | None = None,
    workers_per_machine: int | None = None,
    calibrate: bool = False,
    **options: Any,
) -> Plan:
    """Predict memory, disk, work and duration of a fit, before anything runs.

    Parameters
    ----------
    data, c, **options
        As in :func:`fit`. With `out`, which is not read, the plan is that of a fit in a run directory.
    n_rows : int, optional
        Plan for this number of rows like those of `data`.
    n_workers : int, optional
        Plan for a cluster of this number of workers, each with `n_threads` and `memory_limit`, which need not exist.
    workers_per_machine : int, optional
        Of `n_workers`, those that share a machine and its memory bandwidth; by default, each has a machine of its own.
    calibrate : bool
        Measure for about a second how fast a thread of this machine is, for the duration. By default it is that of the
        machine on which the rates were measured.

    Returns
    -------
    plan : bigsmic.runtime.planning.Plan
        Memory, disk and work per stage, the number of concurrent tasks, the traffic between workers, and the
        duration.

    Raises
    ------
    InputError, PlanError
        The same as :func:`fit` raises before it starts; or `n_workers` is given together with a cluster, or
        `workers_per_machine` without `n_workers`.
    """
    _check_imagined(n_rows, n_workers, workers_per_machine, options)
    run_options = {name: options.get(name, default) for name, default in _DEFAULTS.items()}
    others = {name: options[name] for name in options if name not in _DEFAULTS}
    request = _Request.of(data, c, run_options, others, n_rows)
    with request.open_engine() as opened:
        found = opened.resources
        if n_workers is None:
            opened.recorded(request.run_options.performance_report)  # refused where a fit would refuse it
        else:
            found = replace(found, n_workers=n_workers, workers_per_machine=workers_per_machine or 1)
        planned = request.plan(found)
    return replace(planned, duration=_duration(planned, request.settings, calibrate))


def _duration(planned: Plan, settings: Any, calibrate: bool) -> Duration | None:
    """Expected duration of a fit, if its method says how much work it is."""
    works = getattr(registry.of(settings), "works", None)
    if works is None or "eigen" not in planned.stages:
        return None
    rates = Rates.stored()
    if calibrate:
        from bigsmic.runtime.probe import probe

        rates = replace(rates, factor=probe() / rates.probe_seconds)
    return duration_of(planned, works(planned, settings, rates), rates)


def _check_imagined(
    n_rows: int | None, n_workers: int | None, workers_per_machine: int | None, options: Mapping[str, Any]
) -> None:
    """Check the numbers of rows and workers of a plan that differ from the existing ones.

    Raises
    ------
    InputError
    """
    for name, value in (("n_rows", n_rows), ("n_workers", n_workers)):
        if value is not None:
            check_integer(name, value, 1)
    if workers_per_machine is not None:
        if n_workers is None:
            raise InputError(
                f"workers_per_machine: got {workers_per_machine} without n_workers; give both, or a cluster, whose "
                "workers say on which machines they are"
            )
        check_integer("workers_per_machine", workers_per_machine, 1)
        if workers_per_machine > n_workers:
            raise InputError(f"workers_per_machine: got {workers_per_machine}; use at most n_workers, {n_workers}")
    there = [name for name in ("client", "scheduler", "engine") if options.get(name) not in (None, False)]
    if n_workers is not None and there:
        raise InputError(
            f"n_workers: got {n_workers} and {there[0]}=, which has workers that can be planned for; give one of them"
        )


_DEFAULTS: dict[str, Any] = dict(fit.__kwdefaults__ or {})
"""Parameters of every fit, whatever its method."""


@dataclass(frozen=True)
class _Request:
    """The validated arguments of a call."""

    source: Source
    n_rows: int
    settings: MethodSettings
    cuts: dict[str, str]
    run_options: RunOptions
    block_sizes: BlockSizes
    like: Result | None = None
    side_inputs: dict[str, np.ndarray] = field(default_factory=dict)

    @classmethod
    def of(
        cls, data: Rows, c: Any, asked: Mapping[str, Any], options: Mapping[str, Any], n_rows: int | None = None
    ) -> Self:
        sizes = or_default(asked["block_sizes"])
        share_arena()  # before the input is opened, as its readers are threads
        given = {name: value for name, value in options.items() if value is not UNSET}
        settings = registry.settings(asked["method"], c, given, _DEFAULTS)
        source = _source(data, settings, asked)
        n_rows = n_rows or source.shape[0]
        _check_shape(n_rows, source.shape[1], settings)
        settings.check_shape(*source.shape)
        _warn_of_wide(source, settings)
        settings, cuts = settings.fitted_to(n_rows)
        warn_of_cuts(cuts, set(given))
        run_options = RunOptions(**{field.name: asked[field.name] for field in fields(RunOptions)})
        if run_options.out is not None and callable(getattr(settings, "kernel", None)):
            refuse_nameless(settings.kernel)
        interval()  # an invalid interval is refused before anything is done
        settings, side_inputs = registry.admit(settings, given, source.shape[0], asked["storage_options"])
        return cls(source, n_rows, settings, cuts, run_options, sizes, _like(asked, side_inputs), side_inputs)

    def open_engine(self) -> AbstractContextManager[Engine]:
        """Context manager of the fit's engine."""
        asked = self.run_options
        n_threads = asked.n_threads if asked.engine is not None else asked.threads
        return choose_engine(asked.engine, asked.client, asked.scheduler, n_threads)

    def identity(self) -> dict[str, Any]:
        """Identity of the run: everything that can change a label."""
        like = {} if self.like is None else {numbering.LIKE: self.like._run.id}
        sizes = self.block_sizes.identity(*self.source.shape)
        return {"input": self.describe(), "settings": self.settings.identity()} | sizes | like

    def describe(self) -> dict[str, Any]:
        """Facts about the rows and the side inputs."""
        checksums = {name: checksum(array) for name, array in self.side_inputs.items()}
        return self.source.describe() | ({"side_inputs": checksums} if checksums else {})

    def plan(self, resources: Resources) -> Plan:
        """Plan the fit for the available resources."""
        n, d, run_options = self.n_rows, self.source.shape[1], self.run_options
        of_rows = (self.source.dtype.itemsize, self.source.band_bytes)
        graph = GraphSize.of(self.source, n, self.block_sizes) if isinstance(self.source, SparseSource) else None
        on_machines = resources.workers_per_machine
        size = planning.Size(n, d, *of_rows, resources.n_workers, self.block_sizes, on_machines, graph)
        limits = [limit for limit in (parse_bytes(run_options.memory_limit), resources.memory_limit) if limit]
        checkpoints = run_options.out is not None or resources.n_workers > 1
        limit, method = min(limits, default=None), registry.of(self.settings)
        try:
            found: Plan = method.plan(size, self.settings, limit, resources.n_threads, checkpoints=checkpoints)
        except PlanError as error:
            if not resources.limited_by or limit != resources.memory_limit:
                raise
            raise PlanError(f"{error}; {resources.limited_by}") from None
        scale = None if self.settings.precomputed else self.settings.scale
        held = 0 if checkpoints else min(HELD_BYTES, found.memory_limit - found.peak_bytes)
        return replace(found, decoded=self.source.decoded, scale=scale, held_bytes=held)


def _fill(run: Run, request: _Request, engine: Engine, planned: Plan) -> None:
    """Compute what a run lacks; one that may only be read is finished, and its input alone is checked."""
    context = Context(request.source, run, request.settings)
    with reported(request.run_options.progress, context.n) as report:
        context.source = engine.reach(request.source, run, context.source_bounds)
        job = Job(context, engine, planned, report, side_inputs=request.side_inputs)
        if not run.is_writable:
            recovery.check_input(job)
            return
        recovery.check(job)
        selected.keep(run, request.source)
        columns.keep(run, request.source)
        with_repair(run, lambda: _stages(job.afresh(), request.cuts, request.like))


def _stages(job: Job, cuts: Mapping[str, str], like: Result | None) -> None:
    """Run the blocks that the ledger lacks, write the summary, and delete temporary stages."""
    if like is not None:
        numbering.begin(job)
    found = _found(job)
    if like is not None and _takes_numbers(job, found, like):
        found = _found(job.afresh())
    last = job.afresh()
    n_clusters = found.get("n_clusters", job.context.settings.n_clusters)
    with last.timed("output"):
        novelty.run(last, numbering.width(last.context, n_clusters))
    diagnose(job, cuts, found, recovery.kept(job))
    recovery.tidy(job)


def _found(job: Job) -> dict[str, Any]:
    """Run the blocks that the ledger lacks, and return the method's summary."""
    method = registry.of(job.context.settings)
    method.run(job)
    found = {} if distinct.is_all(job.context) else method.summary(job)
    return found | distinct.summary(job.context)


def _takes_numbers(job: Job, found: Mapping[str, Any], like: Result) -> bool:
    """Number clusters like those of an earlier run, and return whether rows must be written again for that."""
    settings = job.context.settings.found_in(found)
    if settings.undecided or job.run.done(numbering.STAGE, 0):
        return False
    names = sorted(like.names.items())
    numbers.give(job.under(settings), found.get("n_clusters", settings.n_clusters), like._labelled, {"names": names})
    return True


def _like(asked: Mapping[str, Any], side_inputs: Mapping[str, Any]) -> Result | None:
    """The run whose numbers the clusters take.

    Raises
    ------
    InputError
        It has no labels, is the run to be written, or known labels determine the numbers.
    """
    previous = asked["like"]
    if previous is None:
        return None
    if "labels" in side_inputs:
        raise InputError(
            "like: got it together with labels=, which determines the numbers of clusters too; leave one of them out"
        )
    found = (
        previous if isinstance(previous, Result) else Result.open(previous, storage_options=asked["storage_options"])
    )
    found._refuse_undecided("like")
    if asked["out"] is not None and absolute(as_location(asked["out"])) == found._run.address:
        raise InputError(f"like: got {found.location}, which is also the out= of this fit; give another out=")
    return found


def _source(data: Rows, settings: Any, asked: Mapping[str, Any]) -> Source:
    if settings.precomputed and asked["rows"] is not None:
        raise InputError("rows: got rows of a graph, which is fitted as a whole; give the graph of those rows")
    if settings.precomputed:
        return SparseSource(data, "affinity" if settings.kernel == "precomputed" else "distance")
    source = open_source(data, *(asked[name] for name in ("component", "storage_options", "missing_chunks")))
    selected: Source = select_rows(source, asked["rows"])
    return selected


def _check_shape(n: int, d: int, settings: Any) -> None:
    if n == 0:
        raise InputError("input: Found array with 0 sample(s): got shape (0, d), at least 2 rows are needed")
    if d == 0:
        raise InputError(f"input: Found array with 0 feature(s) (shape=({n}, 0)) while a minimum of 1 is required.")
    if n == 1:
        raise InputError("input: got n_samples=1; clustering needs at least 2 rows")
    c = getattr(settings, "open_from", 0) if settings.undecided else settings.n_clusters
    if c is not None and c > n:
        raise InputError(
            f"{CLUSTERS}: got {'at least ' * settings.undecided}{c} clusters for {n} rows; use at most {n}"
        )


def _warn_of_wide(source: Source, settings: MethodSettings) -> None:
    """Warn of few rows with many columns, which are usually a transposed matrix."""
    n, d = source.shape
    if not settings.precomputed and n <= FEW_ROWS and d >= 10 * n:
        warn(f"input: got {n} rows of {d} columns; if these are {d} rows of {n} columns, pass the transpose, X.T")


@contextmanager
def _run_directory(run_options: RunOptions, held_bytes: int) -> Iterator[Run]:
    """A run directory that is open and locked; a temporary one is partly in memory, and deleted if the fit fails."""
    location = temporary_run() if run_options.out is None else os.fspath(run_options.out)
    if run_options.memory_limit is not None and lies_in_memory(location):
        warn(
            f"run: {location} is on a file system in memory, which memory_limit={run_options.memory_limit} does not "
            "cover; give an out= on disk, or set TMPDIR"
        )
    try:
        run = open_run(location, run_options.storage_options)
        if held_bytes and run_options.engine is None:  # another engine's processes need not share this memory
            run.hold(held_bytes)
        try:
            yield run
        finally:
            run.close()
    except BaseException:
        if run_options.out is None:
            remove_unfinished(location)
        raise
