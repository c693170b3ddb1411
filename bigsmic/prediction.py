"""Labels and posteriors of new rows: neighbours among the training rows, eigenvectors extended to them, then read.

Everything is done row by row or in products whose shape does not depend on the call, so that the posterior of a row
does not depend on the rows that came with it.
"""

import inspect
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_array

from bigsmic import calibration, kernel, merge, methods, neighbors, partition, smic
from bigsmic.candidates import problems
from bigsmic.context import Context
from bigsmic.engine import How, ThreadEngine, open_engine
from bigsmic.errors import InputError, NonFiniteError
from bigsmic.kernel import WEIGHT_FLOOR
from bigsmic.memory import share_arena
from bigsmic.moments import first_nonfinite
from bigsmic.progress import reported, ticks
from bigsmic.spelling import refuse_unknown
from bigsmic.stages import assign, distinct, eigen, matrix, output, select
from bigsmic.stages.assign import Reader
from bigsmic.stages.precomputed import minus_log, nearest_entries
from bigsmic.store import PredictionGroup, Source, SparseRows, digest, open_source

BLOCK_BYTES = 16 << 20  # float32 bytes of new rows at a time
MAX_ROWS = 1 << 15  # at a time: with neighbours and eigenvectors, each takes a kilobyte or two
READING = ("component", "storage_options", "missing_chunks")
"""Options that say how new rows are read."""
Reads = dict[str, tuple[str, ...] | None]
"""Stages that a model reads, and of each the arrays; None: all of them."""
LEAST_EIGENVALUE = 0.01
"""Of the largest. An extension divides by the eigenvalue what a solve to 1e-4 has left: below it says nothing."""


def predict(  # noqa: PLR0913
    context,
    data,
    *,
    out=None,
    overwrite=False,
    n_threads=None,
    client=None,
    scheduler=None,
    progress=None,
    performance_report=None,
    **reading,
):
    """Predict new rows block by block.

    Parameters
    ----------
    context : Context
        Of a finished fit.
    data, **reading
        The new rows, `component`, `storage_options` and `missing_chunks`; see :func:`bigsmic.store.open_source`.
    out : str or Path, optional
        Zarr group to write ``labels`` and ``posterior`` to; made, or of the same run and rows.
    overwrite : bool
        Whether arrays of these names in another Zarr group may be written over.
    n_threads : int, optional
        Of this process, 1 by default.
    client : distributed.Client, optional
    scheduler : str, optional
        As of :func:`bigsmic.fit`; rows in the memory of this process are predicted here all the same.
    progress, performance_report : optional
        As of :func:`bigsmic.fit`.

    Returns
    -------
    labels : ndarray of int32, shape (m,), or Zarr array
    posterior : ndarray of float32, shape (m, c), or Zarr array

    Raises
    ------
    OptionError
        Another option.
    """
    refuse_unknown("predict", {*reading} - {*READING}, OPTIONS)
    asked = {"location": out, "storage_options": reading.get("storage_options"), "overwrite": overwrite}
    share_arena()
    if context.settings.precomputed:
        rows = _graph_rows(context, data)
        group = None if out is None else _group(asked, context, SparseRows(rows))
        return _keep(group, *_predict_graph(context, rows))
    source = open_source(data, **reading)
    m, d = source.shape
    if d != context.d:
        raise InputError(
            f"predict: X has {d} features, but the fit was made with {context.d} features; "
            f"give rows of {context.d} columns"
        )
    rows = min(max(256, BLOCK_BYTES // (4 * d)), MAX_ROWS)
    group = None if out is None else _group(asked, context, source)
    predictor = Predictor(context, source, rows)
    starts, n_threads = range(0, m, rows), 1 if n_threads is None else n_threads
    with (
        open_engine(client, scheduler, n_threads) if source.travels else ThreadEngine(n_threads) as engine,
        engine.recorded(performance_report),
        reported(progress, m) as report,
    ):
        how = How("predict", tick=ticks(report, "predict", len(starts)))
        if group is None:
            found = engine.collect(predictor, starts, how) or [predictor.nothing()]
            posterior, labels = (np.concatenate(parts) for parts in zip(*found, strict=True))
            return labels, posterior
        with group.writing(_shapes(m, predictor.model.n_clusters), rows) as arrays:
            engine.each(partial(_predict_into, predictor, arrays), starts, how)
        return arrays["labels"], arrays["posterior"]


OPTIONS = {*READING, *(name for name, p in inspect.signature(predict).parameters.items() if p.kind is p.KEYWORD_ONLY)}


def _shapes(m, c):
    return {"labels": ((m,), np.int32), "posterior": ((m, c), np.float32)}


def _group(asked, context, source):
    """The group to write to, if it may be written to; a fit is told from others by what it was of and what it found."""
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
        Of a block.
    """

    context: Context
    source: Source
    rows: int

    @cached_property
    def model(self):
        """What the method makes predictions with; nothing has been found for a single cluster."""
        return model_of(self.context)

    def __call__(self, lo):
        """Posteriors and labels of the block that begins with row `lo`: float32 (b, c) and int32 (b,)."""
        X = self.source.read(lo, min(lo + self.rows, self.source.shape[0]))
        refuse_nonfinite(self.source, X, lo)
        return self.model(self.context.scaler.apply(X))

    def nothing(self):
        """What no rows give."""
        return np.empty((0, self.model.n_clusters), np.float32), np.empty(0, np.int32)

    def __getstate__(self):
        """What another process needs."""
        return {"context": self.context, "source": self.source, "rows": self.rows}


def model_of(context):
    """What the method of a fit makes predictions with."""
    settings = context.settings
    if distinct.is_all(context):
        return distinct.Model(context)
    return Single() if settings.n_clusters == 1 else methods.of(settings).model(context)


def _predict_into(predictor, arrays, lo):
    posterior, labels = predictor(lo)
    arrays["posterior"][lo : lo + len(labels)], arrays["labels"][lo : lo + len(labels)] = posterior, labels


def _keep(group, labels, posterior):
    """Write predictions that are in memory, if they are to be written."""
    if group is None:
        return labels, posterior
    with group.writing(_shapes(*posterior.shape), MAX_ROWS) as arrays:
        arrays["labels"][...], arrays["posterior"][...] = labels, posterior
    return arrays["labels"], arrays["posterior"]


def _graph_rows(context, data):
    """Check rows of affinities, or of distances, to the fitted rows: shape (m, n), sparse."""
    rows = csr_array(data)
    if rows.shape[1] != context.n:
        raise InputError(
            f"predict: X has {rows.shape[1]} features, but the fit was made with {context.n} rows; "
            f"give (m, {context.n})"
        )
    if not np.isfinite(rows.data).all():
        raise NonFiniteError("predict: the sparse matrix contains NaN or infinity; drop those entries")
    return rows


def _predict_graph(context, rows):
    """Predict rows of a graph."""
    if context.settings.n_clusters == 1:
        return Single()(rows.toarray()[:, :1])[::-1]
    row = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    values, k = rows.data, context.settings.n_neighbors
    if context.settings.kernel == "precomputed":
        kept = values > 0
        row, column = row[kept], rows.indices[kept]
        values = np.sqrt(minus_log(values[kept], context.run.info("graph", 0)["largest"]).astype(np.float64))
        k = max(1, int(np.bincount(row, minlength=1).max(initial=1)))
    else:
        column = rows.indices
    found = Model(context).read(*nearest_entries(row, column.astype(np.int64), values, rows.shape[0], k))
    return found[::-1]


def refuse_nonfinite(source, X, lo):
    """NonFiniteError if rows of a source, which begin with row `lo`, have NaN or infinity."""
    count, row, column = first_nonfinite(X)
    if count:
        raise NonFiniteError(
            f"predict: {source.name} contains NaN or infinity: first at row {lo + row}, column {column}; "
            "drop or impute these rows"
        )


class Single:
    """One cluster takes every row."""

    n_clusters = 1
    reads: ClassVar[Reads] = {}

    def __call__(self, X):
        """Posteriors 1 and labels 0."""
        return np.ones((len(X), 1), np.float32), np.zeros(len(X), np.int32)


NEIGHBORS: Reads = {"cells": None, "route": ("counts",), "rows": ("X", "cell"), "graph": ("sigma",)}


class Neighborhood:
    """Neighbours of new rows among the fitted ones, and the kernel with them.

    Parameters
    ----------
    context : Context
        With the settings of the neighbour graph.
    """

    def __init__(self, context: Context):
        self.context = context
        self.reads = NEIGHBORS

    def _search(self, X):
        """Positions and squared distances of the nearest training rows."""
        context = self.context
        best = neighbors.start_knn(len(X), context.settings.n_neighbors)
        probes = partition.probe(X, context.cells)
        for p in context.blocks:
            read = context.run.reader("rows", p)
            lo, hi = context.layout.bounds[p : p + 2]
            best = neighbors.update_knn(best, X, probes, read("X"), np.arange(lo, hi), read("cell"))
        return best

    def _touched(self, indices):
        """The fitted rows that some neighbours are, ascending, and where each neighbour lies among them."""
        known = np.unique(indices[indices >= 0])
        return known, np.searchsorted(known, np.maximum(indices, 0)).clip(max=len(known) - 1)

    def _weights(self, problem, indices, squares, known, local):
        """Kernel with the t nearest training rows, and with those found to which x is as near as their own t-th."""
        t = problem.t
        i = self.context.settings.t.index(t)
        sigma = self._gather(lambda p: self.context.run.read("graph", p, "sigma", i)[0], known)[local]
        own = np.sqrt(squares[:, min(t, squares.shape[1]) - 1])[:, None]
        near = ((np.arange(indices.shape[1]) < t) | (np.sqrt(squares) <= sigma)) & (indices >= 0)
        found = matrix.weight_of(self.context)(squares[near], np.broadcast_to(own, squares.shape)[near], sigma[near])
        weights = np.zeros(squares.shape, np.float32)
        weights[near] = np.maximum(found, np.float32(WEIGHT_FLOOR)) if problem.kernel == "normalized" else found
        return weights

    def _product(self, X, problem, read_columns):
        """``K(x, X) C`` for scaled new rows; `read_columns` reads C at the rows of a block. float32, shape (b, m)."""
        indices, squares = self._search(X)
        known, local = self._touched(indices)
        weights, C = self._weights(problem, indices, squares, known, local), self._gather(read_columns, known)
        return smic.extend(weights, local, C, np.ones(C.shape[1]))

    def _gather(self, read_block, positions):
        """Entries of a per-row array at some positions, ascending."""
        bounds = self.context.layout.bounds
        cuts = np.searchsorted(positions, bounds)
        parts = [
            read_block(p)[positions[cuts[p] : cuts[p + 1]] - bounds[p]]
            for p in self.context.blocks
            if cuts[p + 1] > cuts[p]
        ]
        return np.concatenate(parts)


_CHOICE: Reads = {
    "consensus": None,
    "windows": ("modularity", "association"),
    "scores": ("lsmi",),
    "spectrum": ("ritz_values",),
    "final": ("labels",),
    "sharpness": None,
}
"""What a Model reads to know what the result is made of."""


class Model(Neighborhood):
    """What predictions need of a finished fit; rows of training blocks are read as they are needed.

    Parameters
    ----------
    context : Context
    """

    def __init__(self, context: Context):
        super().__init__(context)
        self.n_clusters = context.settings.n_clusters
        self.classes = select.members(context)
        self.readers = {b: Reader(context, b) for b in self.classes}
        self.problems = list(dict.fromkeys(context.readings[b].problem for b in self.classes))
        self.power = output.sharpness(context)
        self.reads = self.reads | _CHOICE | {assign.frame_name(r.reading): None for r in self.readers.values()}
        normalised = [problem for problem in self.problems if problem.kernel == "normalized"]
        self.reads |= {matrix.degree_name(problem): ("degree",) for problem in normalised}
        self.reads |= {self._basis_name(problem): None for problem in self.problems}

    def _basis_name(self, problem):
        """Stage of what is extended to new rows."""
        return eigen.basis_name(problem)

    def __call__(self, X):
        """Posteriors and labels of scaled rows, float32 (b, c) and int32 (b,)."""
        return self.read(*self._search(X))

    def read(self, indices, squares):
        """Posteriors and labels of rows whose neighbours among the fitted rows are known."""
        bases = {problem: self._extend(problem, indices, squares) for problem in self.problems}
        c = self.context.settings.n_clusters
        total, votes = np.zeros((len(indices), c)), np.zeros((len(indices), c), np.int32)
        rows, has_mass = np.arange(len(indices)), np.zeros(len(indices), bool)
        for b, reader in self.readers.items():
            found = reader(bases[reader.reading.problem][:, : reader.reading.width])
            total += merge.group_columns(found.posterior, self.classes[b], c)
            to = self.classes[b][found.labels]
            votes[rows[to >= 0], to[to >= 0]] += 1
            has_mass |= found.has_mass
        posterior = (total / len(self.readers)).astype(np.float32)
        labels = merge.consensus_labels(votes, posterior)
        return calibration.sharpened(posterior, self.power), self._adopt(labels, has_mass, indices)

    def _extend(self, problem, indices, squares):
        """``v(x) = K(x, X) V Lambda^-1`` on the neighbours of each new row."""
        known, local = self._touched(indices)
        weights = self._weights(problem, indices, squares, known, local)
        degrees = self._degrees(problem, weights, known) if problem.kernel == "normalized" else (None, None)
        V, values = self._basis(problem, known)
        usable = values > LEAST_EIGENVALUE * np.abs(values).max()
        extension = np.zeros((len(indices), len(values)), np.float32)
        extension[:, usable] = smic.extend(weights, local, V[:, usable], values[usable], *degrees)
        return extension

    def _degrees(self, problem, weights, known):
        """Degrees that normalise, of some training rows and of the new ones."""
        fitted = self._gather(lambda p: matrix.read_degree(self.context, problem, p), known)
        mean = self._solved(problem, self.context.run.info).get("mean_degree", 0.0)
        return [kernel.shrunk(d, mean, problem.shrinkage) for d in (fitted, weights.sum(axis=1, dtype=np.float64))]

    def _solved(self, problem, read, *name):
        """What the run directory keeps of the solve of a problem."""
        return read("spectrum", problems(self.context.settings).index(problem), *name)

    def _basis(self, problem, known):
        """Eigenvectors at some training rows, and eigenvalues."""
        values = self._solved(problem, self.context.run.read, "ritz_values")
        return self._gather(lambda p: self.context.run.read(self._basis_name(problem), p, "V"), known), values

    def _adopt(self, labels, has_mass, indices):
        """A new row in which no column is positive takes the label of its nearest training row."""
        orphans = np.flatnonzero(~has_mass & (indices[:, 0] >= 0))
        if len(orphans):
            nearest, inverse = np.unique(indices[orphans, 0], return_inverse=True)
            labels[orphans] = self._gather(lambda p: self.context.run.read("final", p, "labels"), nearest)[inverse]
        return labels
