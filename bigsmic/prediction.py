"""Labels and posteriors of new rows, from their nearest training rows and the eigenvectors extended to them.

Everything is done row by row or in products whose shape does not depend on the call, so that the posterior of a row
does not depend on the rows that came with it.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from bigsmic import registry
from bigsmic.engines import engine_for_rows
from bigsmic.engines.base import Engine, TaskOptions
from bigsmic.engines.memory import share_arena
from bigsmic.errors import InputError, NonFiniteError
from bigsmic.numerics.moments import first_nonfinite
from bigsmic.numerics.row_blocks import tiles
from bigsmic.numerics.selection import Selection
from bigsmic.runtime.context import Context
from bigsmic.runtime.progress import reported, ticks
from bigsmic.spelling import refuse_unknown
from bigsmic.stages import columns, distinct, numbering, projection
from bigsmic.stages.novelty import Assessor
from bigsmic.stages.out_of_sample import Model, Reads
from bigsmic.stages.precomputed import minus_log, nearest_entries
from bigsmic.store import (
    PredictionGroup,
    Source,
    SparseRows,
    canonical_csr,
    check_real_entries,
    digest,
    open_source,
    range_of,
    select_rows,
    write_rows,
)
from bigsmic.types import Client, Floats, Integers, Labels, Posterior, Progress, StrPath

BLOCK_BYTES = 16 << 20  # of a block of new rows as float32
MAX_ROWS = 1 << 15  # of a block: with neighbours and eigenvectors, a row takes one or two kilobytes
READING = ("component", "rows", "storage_options", "missing_chunks")
"""Options for reading new rows."""

Predicted: TypeAlias = tuple[NDArray[np.float32], NDArray[np.int32]]
"""Posteriors and labels of a block of rows."""
Assessed: TypeAlias = tuple[NDArray[np.float32], NDArray[np.int32], NDArray[np.float32]]
"""Posteriors, labels and novelty of a block of rows."""


def predict(  # noqa: PLR0913
    context: Context,
    data: Any,
    *,
    out: StrPath | None = None,
    overwrite: bool = False,
    n_threads: int | None = None,
    client: Client = None,
    scheduler: str | None = None,
    engine: Engine | None = None,
    progress: Progress = None,
    performance_report: StrPath | None = None,
    **reading: Any,
) -> tuple[Labels, Posterior]:
    """Predict new rows block by block.

    Parameters
    ----------
    context : Context
        Context of a finished fit.
    data, **reading
        The new rows, `component`, `storage_options` and `missing_chunks`; see :func:`bigsmic.store.open_source`; and
        `rows`, a slice of them.
    out : str or Path, optional
        Zarr group for ``labels`` and ``posterior``: a new one, or one with predictions of the same rows by the same
        run.
    overwrite : bool
        Whether arrays of these names in another Zarr group may be overwritten.
    n_threads : int, optional
        Threads of this process, 1 by default.
    client : distributed.Client, optional
    scheduler : str, optional
    engine : bigsmic.engines.base.Engine, optional
        As in :func:`bigsmic.fit`; rows in the memory of this process are always predicted here.
    progress, performance_report : optional
        As in :func:`bigsmic.fit`.

    Returns
    -------
    labels : ndarray of int32, shape (m,), or Zarr array
    posterior : ndarray of float32, shape (m, c), or Zarr array

    Raises
    ------
    OptionError
        An option that does not exist.
    """
    refuse_unknown("predict", {*reading} - {*READING}, OPTIONS)
    asked = {"location": out, "storage_options": reading.get("storage_options"), "overwrite": overwrite}
    share_arena()
    if context.settings.precomputed:
        rows = _graph_rows(context, data, reading.get("rows"), "predict")
        group = None if out is None else _group(asked, context, SparseRows(rows))
        return _keep(group, *_predict_graph(context, rows))
    source = _open(context, data, reading, "predict")
    m, rows = source.shape[0], rows_at_once(context.d)
    group = None if out is None else _group(asked, context, source)
    predictor = Predictor(context, source, rows)
    starts = range(0, m, rows)
    where = (engine, client, scheduler, n_threads)
    with running(source, where, progress, performance_report) as (opened, report):
        options = _tasks(report, len(starts))
        if group is None:
            found = opened.map(predictor, starts, options) or [predictor.nothing()]
            posterior, labels = (np.concatenate(parts) for parts in zip(*found, strict=True))
            return labels, posterior
        with group.writing(_shapes(m, predictor.assessor.n_clusters), rows) as arrays:
            opened.for_each(partial(_predict_into, predictor, arrays), starts, options)
        return arrays["labels"], arrays["posterior"]


def _keywords(function: Callable[..., Any]) -> set[str]:
    found = inspect.signature(function).parameters.items()
    return {*READING, *(name for name, p in found if p.kind is p.KEYWORD_ONLY)}


OPTIONS = _keywords(predict)


def score_rows(  # noqa: PLR0913
    context: Context,
    data: Any,
    score: str,
    *,
    n_threads: int | None = None,
    client: Client = None,
    scheduler: str | None = None,
    engine: Engine | None = None,
    progress: Progress = None,
    performance_report: StrPath | None = None,
    **reading: Any,
) -> NDArray[np.float32]:
    """Noise scores, or novelty, of new rows, block by block.

    Parameters
    ----------
    context : Context
        Context of a finished fit that has the reference distances of the score.
    data, n_threads, client, scheduler, engine, progress, performance_report, **reading
        As in :func:`predict`.
    score : {"predict_noise", "novelty"}
        Method of the Result to call.

    Returns
    -------
    scores : ndarray of float32, shape (m,)

    Raises
    ------
    OptionError
        An option that does not exist.
    """
    refuse_unknown(score, {*reading} - {*READING}, _keywords(score_rows))
    share_arena()
    if context.settings.precomputed:
        score_block = _scorer(context, score)
        of_blocks = _graph_neighbors(context, _graph_rows(context, data, reading.get("rows"), score))
        return np.concatenate([score_block(*neighbors) for neighbors in of_blocks])
    source = _open(context, data, reading, score)
    m, rows = source.shape[0], rows_at_once(context.d)
    starts = range(0, m, rows)
    where = (engine, client, scheduler, n_threads)
    with running(source, where, progress, performance_report) as (opened, report):
        options = _tasks(report, len(starts))
        scores = opened.map(ScorePredictor(context, source, rows, score), starts, options)
    return np.concatenate([np.empty(0, np.float32), *scores])


def _scorer(context: Context, score: str) -> Callable[[Integers, Floats], NDArray[np.float32]]:
    """The function that scores rows of a graph, whose neighbours are known."""
    if score == "predict_noise":
        return Model(context).read_noise
    assessor = Assessor(context, model_of(context))
    return lambda indices, squares: assessor.read(indices, squares)[2]


@contextmanager
def running(
    source: Source, where: tuple[Any, ...], progress: Progress, performance_report: StrPath | None
) -> Iterator[tuple[Engine, Any]]:
    """The engine that blocks of a source are predicted on, rows in memory in this process, and what reports of it."""
    engine, client, scheduler, n_threads = where
    with (
        engine_for_rows(source.travels, engine, client=client, scheduler=scheduler, n_threads=n_threads) as opened,
        opened.recorded(performance_report),
        reported(progress, source.shape[0]) as report,
    ):
        yield opened, report


def _tasks(report: Any, n_blocks: int) -> TaskOptions:
    """Options of the tasks that predict blocks."""
    return TaskOptions("predict", tick=ticks(report, "predict", n_blocks))


def _open(context: Context, data: Any, reading: Mapping[str, Any], who: str) -> Source:
    """The new rows, which must have the columns of the fitted ones; `who` is the method that asks, for messages."""
    rows = reading.get("rows")
    source = open_source(data, **{name: value for name, value in reading.items() if name != "rows"})
    d = source.shape[1]
    if d != context.d:
        raise InputError(
            f"{who}: X has {d} features, but the fit was made with {context.d} features; "
            f"give rows of {context.d} columns"
        )
    columns.refuse_others(context.run, source.column_names, who)
    selected: Source = select_rows(source, rows, leave_out=False)
    return selected


def rows_at_once(d: int) -> int:
    """Rows of a block of new rows of d columns."""
    return min(max(256, BLOCK_BYTES // (4 * d)), MAX_ROWS)


def _shapes(m: int, c: int) -> dict[str, tuple[tuple[int, ...], type[np.generic]]]:
    return {"labels": ((m,), np.int32), "posterior": ((m, c), np.float32)}


def _group(asked: Mapping[str, Any], context: Context, source: Any) -> PredictionGroup:
    """The group to write to, after checking that this is allowed; identified by the run's identity and output."""
    fit = digest([context.run.identity, context.run.infos("output", context.source_blocks)])
    rows = source.describe() | {"origin": digest(source.origin())}
    group = PredictionGroup(made_of={"fit": fit, "rows": rows}, **asked)
    group.keep_off(context.run.places, "the run that predicts")
    group.keep_off(source.places, "the archive that is read")
    group.admit()
    return group


@dataclass(frozen=True)
class Predictor:
    """Predicts blocks of new rows; a process reads the model once.

    Parameters
    ----------
    context : Context
        Of the finished fit.
    source : Source
        The new rows.
    rows : int
        Rows of a block.
    """

    context: Context
    source: Source
    rows: int

    @property
    def who(self) -> str:
        """Method that asks, for messages."""
        return "predict"

    @cached_property
    def assessor(self) -> Assessor:
        """The method's model; for a single cluster a constant one, as the fit has no artifacts then."""
        return Assessor(self.context, model_of(self.context))

    def __call__(self, lo: int) -> Predicted:
        """Posteriors and labels of the block that begins with row `lo`: float32 (b, c) and int32 (b,).

        Invalid rows have posteriors NaN and label -1.
        """
        posterior, labels, _ = self.assess(lo, self.read(lo))
        return posterior, labels

    def read(self, lo: int) -> NDArray[Any]:
        """Rows of the block that begins with row `lo`, as stored."""
        found: NDArray[Any] = self.source.read(lo, min(lo + self.rows, self.source.shape[0]))
        return found

    def assess(self, lo: int, X: NDArray[Any]) -> Assessed:
        """Posteriors, labels and novelty, float32 (b,), of stored rows that begin with row `lo`."""
        X, valid = self.valid(lo, X)
        posterior, labels, novelty = self.assessor(X) if len(X) else (*self.nothing(), np.empty(0, np.float32))
        return _in_place(posterior, valid, np.nan), _in_place(labels, valid, -1), _in_place(novelty, valid, np.nan)

    def valid(self, lo: int, X: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        """The valid rows among those from `lo` on, as stored, and the mask of valid rows; None if all are valid."""
        hi = lo + len(X)
        valid = self.source.valid(lo, hi)
        X = X if valid is None else X[valid]
        rows = range(lo, hi) if valid is None else lo + np.flatnonzero(valid)
        refuse_nonfinite(self.source, X, rows, self.who)
        return X, valid

    def nothing(self) -> Predicted:
        """Predictions for no rows."""
        return np.empty((0, self.assessor.n_clusters), np.float32), np.empty(0, np.int32)

    def __getstate__(self) -> dict[str, Any]:
        """State that another process needs."""
        return {"context": self.context, "source": self.source, "rows": self.rows}


@dataclass(frozen=True)
class ScorePredictor(Predictor):
    """Predicts a score of new rows.

    Parameters
    ----------
    context, source, rows
        As in :class:`Predictor`.
    score : str
        As in :func:`score_rows`.
    """

    score: str

    @property
    def who(self) -> str:
        """Method that asks, for messages."""
        return self.score

    def __call__(self, lo: int) -> NDArray[np.float32]:  # type: ignore[override]
        """Scores of the block that begins with row `lo`, float32 (b,); NaN for invalid rows."""
        X, valid = self.valid(lo, self.read(lo))
        return _in_place(self._scores(X) if len(X) else np.empty(0, np.float32), valid, np.nan)

    def _scores(self, X: NDArray[Any]) -> NDArray[np.float32]:
        if self.score == "novelty":
            return self.assessor(X)[2]
        found: NDArray[np.float32] = self.assessor.model.noise(
            self.context.scaler.apply(X), projection.remainders_of(self.context, X)
        )
        return found

    def __getstate__(self) -> dict[str, Any]:
        """State that another process needs."""
        return super().__getstate__() | {"score": self.score}


def _in_place(found: NDArray[Any], valid: NDArray[np.bool_] | None, fill: float) -> NDArray[Any]:
    """Results of the valid rows, placed among all rows of a block; `fill` for the others."""
    if valid is None:
        return found
    placed = np.full((len(valid), *found.shape[1:]), fill, found.dtype)
    placed[valid] = found
    return placed


def model_of(context: Context) -> Any:
    """The model of a fit's method, with the cluster numbers that users see."""
    numbers = numbering.of(context)
    found = _method_model(context)
    return found if numbers is None else numbering.NumberedModel(found, numbers)


def _method_model(context: Context) -> Any:
    settings = context.settings
    if distinct.is_all(context):
        return distinct.Model(context)
    return Single() if settings.n_clusters == 1 else registry.of(settings).model(context)


def _predict_into(predictor: Predictor, arrays: Mapping[str, Any], lo: int) -> None:
    posterior, labels = predictor(lo)
    write_rows(arrays, lo, {"posterior": posterior, "labels": labels})


def _keep(
    group: PredictionGroup | None, labels: NDArray[np.int32], posterior: NDArray[np.float32]
) -> tuple[Labels, Posterior]:
    """Write predictions in memory to the group, if there is one."""
    if group is None:
        return labels, posterior
    with group.writing(_shapes(*posterior.shape), MAX_ROWS) as arrays:
        write_rows(arrays, 0, {"labels": labels, "posterior": posterior})
    return arrays["labels"], arrays["posterior"]


def _graph_rows(context: Context, data: Any, wanted: Any, who: str) -> csr_array:
    """The wanted ones, or all, of rows of affinities or distances to the fitted rows: shape (m, n), sparse.

    `who` is the method that asks, for messages.
    """
    n, given = context.n, data if issparse(data) else np.asanyarray(data)
    what = "affinities" if context.settings.kernel == "precomputed" else "distances"
    if given.ndim != 2:
        raise InputError(
            f"{who}: expected a sparse matrix of {what} to the fitted rows, got {type(data).__name__} of shape "
            f"{given.shape}; give (m, {n})"
        )
    if given.shape[1] != n:
        raise InputError(f"{who}: X has {given.shape[1]} features, but the fit was made with {n} rows; give (m, {n})")
    check_real_entries(given.dtype, f"{who}: X")
    rows = canonical_csr(given)
    if not np.isfinite(rows.data).all():
        raise NonFiniteError(f"{who}: the sparse matrix contains NaN or infinity; remove those entries")
    if rows.data.min(initial=0) < 0:
        raise InputError(f"{who}: X has negative {what}, down to {rows.data.min():.6g}; give {what} of at least 0")
    if wanted is None:
        return rows
    start, stop = range_of(wanted, rows.shape[0])
    return rows[wanted.numbers(0, len(wanted)) if isinstance(wanted, Selection) else slice(start, stop)]


def _predict_graph(context: Context, rows: csr_array) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Predict rows of a graph."""
    if context.settings.n_clusters == 1:
        posterior, labels = model_of(context)(rows.toarray()[:, :1])
        return labels, posterior
    assessor = Assessor(context, model_of(context))
    parts = [assessor.read(*neighbors)[:2] for neighbors in _graph_neighbors(context, rows)]
    posterior, labels = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return labels, posterior


def _graph_neighbors(context: Context, rows: csr_array) -> Iterator[tuple[Integers, Floats]]:
    """Nearest fitted rows of rows of a graph, and their squared distances, block by block; one block at least."""
    k, is_affinity = context.settings.n_neighbors, context.settings.kernel == "precomputed"
    if is_affinity:
        if not rows.data.all():  # entries without weight are none
            rows = rows.copy()
            rows.eliminate_zeros()
        k = max(1, int(np.diff(rows.indptr).max(initial=1)))
    for part in tiles(rows.shape[0], rows_at_once(k)) or [slice(0, 0)]:
        block = rows[part]
        row, values = np.repeat(np.arange(block.shape[0]), np.diff(block.indptr)), block.data
        if is_affinity:
            values = np.sqrt(minus_log(values, context.run.info("graph", 0)["largest"]).astype(np.float64))
        yield nearest_entries(row, block.indices.astype(np.int64), values, block.shape[0], k)


def refuse_nonfinite(source: Source, X: NDArray[Any], rows: Sequence[int] | Integers, who: str) -> None:
    """Raise NonFiniteError if rows of a source, whose numbers are given, contain NaN or infinity.

    `who` is the method that asks, for the message.
    """
    count, row, column = first_nonfinite(X)
    if count:
        raise NonFiniteError(
            f"{who}: {source.name} contains NaN or infinity: first at row {source.number(rows[row])}, column "
            f"{column}; drop or impute these rows"
        )


class Single:
    """Model of a single cluster, which contains every row."""

    n_clusters = 1
    reads: ClassVar[Reads] = {}

    def __call__(self, X: Any) -> Predicted:
        """Posteriors 1 and labels 0."""
        return np.ones((len(X), 1), np.float32), np.zeros(len(X), np.int32)
