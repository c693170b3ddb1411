"""novelty: usual distances among the fitted rows, with which those of new rows are compared."""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.graph import candidates
from bigsmic.numerics.graph.affinity import column_positions
from bigsmic.numerics.graph.neighbor_lists import tth_squares
from bigsmic.numerics.hashing import draw_rows
from bigsmic.numerics.labeling import novelty
from bigsmic.numerics.labeling.novelty import Scale, Shapes
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.stages import distinct, hubs, numbering, projection
from bigsmic.stages.graph import read_graph
from bigsmic.stages.rowwise_output import read_array
from bigsmic.types import Floats, Integers

STAGE = "novelty"
SHAPES = ("means", "spreads")
"""Arrays that predictions read, if the method has no neighbours."""
SAMPLE_ROWS, LEAST_SAMPLE = 4096, 64
SAMPLE_BYTES = 64 << 20  # float32 bytes of the sampled rows


def run(job: Job, n_clusters: int) -> None:
    """Measure usual distances: between neighbours if the fit has a graph, else within clusters."""
    context, run = job.context, job.run
    if run.done(STAGE, 0) or distinct.is_all(context):
        return
    if run.done("graph", 0):
        _of_neighbors(job)
    elif not (context.settings.precomputed or context.settings.undecided):
        _of_shapes(context, n_clusters)


def _of_neighbors(job: Job) -> None:
    """Ratios of sampled rows to their neighbours, from the graph."""
    context = job.context
    stored, rows = None, draw_rows(context.n, SAMPLE_ROWS, context.settings.seed, STAGE)
    if projection.usual_remainders(context):
        stored, rows = _sample(context)
    parts = job.map_blocks(STAGE, context.blocks, partial(_distances, rows=rows))
    numbers, own, of_neighbors = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    known = np.isfinite(own) & np.isfinite(of_neighbors)  # given graphs may have rows with fewer than t neighbours
    if not known.any():
        return
    own, of_neighbors = own[known], of_neighbors[known]
    if stored is not None:
        stored = stored[np.searchsorted(rows, numbers[known])]
        own = projection.over_all_columns(context, own, projection.remainders_of(context, stored, fitted=True))
        of_neighbors = projection.over_all_columns(context, of_neighbors)
    floor = novelty.floor_of(own)
    _write(context, {}, novelty.neighbor_ratios(own, of_neighbors, floor), floor)


def _distances(context: Context, p: int, rows: Integers) -> tuple[Integers, Floats, Floats]:
    """Numbers of the drawn rows of a block, distances to their t-th neighbours, and means of those of the neighbours.

    The largest t counts.
    """
    numbers = context.run.read("rows", p, "rows")
    is_drawn = np.isin(numbers, rows)
    graph, sigma = read_graph(context, p), _largest(context, p)
    lengths = np.diff(graph.indptr)
    entries = np.flatnonzero(np.repeat(is_drawn, lengths))
    owners = np.repeat(np.flatnonzero(is_drawn), lengths[is_drawn])
    positions, of_entries = np.unique(column_positions(graph)[graph.indices[entries]], return_inverse=True)
    theirs = context.at(STAGE, partial(_largest, context), positions)[of_entries]
    squares = graph.sq_distances[entries]
    if hubs.are_chosen(context):
        own, reach = (_largest(context, p, name)[owners] for name in ("scale", "reach"))
        scales = context.at(f"{STAGE} scale", partial(_largest, context, name="scale"), positions)[of_entries]
        near = np.flatnonzero(candidates.separations(squares, own, scales) <= reach)
        near = near[_are_first(owners[near], squares[near], max(context.settings.t))]
    else:
        near = np.flatnonzero(np.sqrt(squares) <= sigma[owners])
    owners, theirs = owners[near], theirs[near]
    sums, counts = (np.bincount(owners, weights, len(numbers))[is_drawn] for weights in (theirs, None))
    return numbers[is_drawn], sigma[is_drawn].astype(np.float64), sums / np.maximum(counts, 1)


def _are_first(owners: Integers, squares: Floats, t: int) -> NDArray[np.bool_]:
    """Whether each entry of some rows, whose entries are consecutive, is among the t nearest of its row.

    Rows that list this one, but are no candidates of it as they are farther than these, may be separated less.
    """
    order = np.lexsort((squares, owners))
    found = np.empty(len(owners), bool)
    found[order] = np.arange(len(owners)) - np.searchsorted(owners, owners) < t
    return found


def _largest(context: Context, p: int, name: str = "sigma") -> Floats:
    """An array of the graph at the rows of a block, for the largest t if it has values for each."""
    found: Floats = context.run.read("graph", p, name)
    return found.max(axis=0) if found.ndim == 2 else found


def _of_shapes(context: Context, n_clusters: int) -> None:
    """Deviations of sampled rows from the means of their clusters."""
    stored, rows = _sample(context)
    y = np.asarray(read_array(context, "labels")[rows])
    known = y >= 0
    if not known.any():
        return
    X, y = context.scaler.apply(stored if known.all() else stored[known]), y[known]
    found = novelty.shapes(X, y, n_clusters)
    ratios = novelty.left_out_ratios(X, y, found)
    if len(ratios):
        _write(context, found._asdict(), ratios, 0.0)


def _sample(context: Context) -> tuple[NDArray[Any], Integers]:
    """Sampled rows as stored, from the scan or, if it kept none, from the input; and their numbers, ascending."""
    parts = [context.scan(s, "sample_rows")[0] for s in context.source_blocks]
    kept = np.concatenate(parts)
    most = max(LEAST_SAMPLE, min(SAMPLE_ROWS, SAMPLE_BYTES // (4 * context.d)))
    seed = context.settings.seed
    rows = kept[draw_rows(len(kept), most, seed, STAGE)] if len(kept) else draw_rows(context.n, most, seed, STAGE)
    bounds = context.source_bounds.tolist()
    chosen = []
    for s, of_block in enumerate(parts):
        lo, hi = np.searchsorted(rows, bounds[s : s + 2])
        if lo == hi:
            continue
        places = np.searchsorted(of_block, rows[lo:hi]) if len(kept) else rows[lo:hi] - bounds[s]
        X = context.scan(s, "sample")[0] if len(kept) else context.input_block(s)
        chosen.append(X[places])
    return np.concatenate(chosen), rows


def _write(context: Context, arrays: dict[str, Any], ratios: NDArray[np.float64], floor: float) -> None:
    limit = novelty.limit_of(ratios)
    fitted = np.sort(ratios / limit).astype(np.float32)
    info = {"limit": limit, "floor": floor, "share": float((ratios > limit).mean())}
    context.run.write(STAGE, 0, arrays | {"fitted": fitted}, info=info | {"trusted": novelty.trusted_of(fitted)})


class Novelty:
    """Scores rows whose neighbours or labels a model has found.

    Parameters
    ----------
    context : Context
        Context of a finished fit with this stage.
    model : object
        Model of its method.
    """

    def __init__(self, context: Context, model: Any) -> None:
        info = context.run.info(STAGE, 0)
        self.scale, self.trusted = Scale(info["limit"], info["floor"]), np.float32(info["trusted"])
        self._context, self._model = context, model
        if not hasattr(model, "search"):
            read = context.run.reader(STAGE, 0)
            self._shapes = Shapes(read("means"), read("spreads"))

    def of_neighbors(self, indices: Integers, squares: Floats, remainders: Floats | None = None) -> NDArray[np.float32]:
        """Novelty of rows whose neighbours, squared distances and, if these are of components, remainders are known."""
        sigma = self._model.mean_sigma(indices, squares)
        t = max(self._model.context.settings.t)
        distances = np.sqrt(tth_squares(squares, t), dtype=np.float64)
        if remainders is not None:
            distances = projection.over_all_columns(self._context, distances, remainders)
            sigma = projection.over_all_columns(self._context, sigma)
        ratios = novelty.neighbor_ratios(distances, sigma, self.scale.floor)
        found: NDArray[np.float32] = (ratios / self.scale.limit).astype(np.float32)
        return found

    def of_labels(self, X: Floats, labels: Integers) -> NDArray[np.float32]:
        """Novelty of scaled rows whose labels are known."""
        found: NDArray[np.float32] = (self._shapes.ratios(X, labels) / self.scale.limit).astype(np.float32)
        return found


class Assessor:
    """Predicts rows: posteriors tempered by novelty, labels, and novelty.

    Parameters
    ----------
    context : Context
    model : object
        Model of its method.
    """

    def __init__(self, context: Context, model: Any) -> None:
        self.model, self._context = model, context
        self.n_clusters: int = model.n_clusters
        self.novelty = Novelty(context, model) if context.run.done(STAGE, 0) else None
        numbers = numbering.of(context)
        own = np.full(model.n_clusters if numbers is None else len(numbers.numbers), 1.0)
        self._uniform = (own if numbers is None else numbers.spread(own)) / len(own)

    def __call__(self, stored: NDArray[Any]) -> tuple[NDArray[np.float32], NDArray[np.int32], NDArray[np.float32]]:
        """Posteriors (b, c), labels (b,) and novelty (b,) of stored rows.

        Novelty is NaN for a run without this stage.
        """
        if hasattr(self.model, "search"):
            X = self._context.scaler.apply(stored)
            indices, squares = self.model.search(X)
            return self.read(indices, squares, X, projection.remainders_of(self._context, stored))
        X = self._context.scaler.within_reach(stored)
        posterior, labels = self.model(X)
        if self.novelty is None:
            return posterior, labels, np.full(len(labels), np.nan, np.float32)
        return self._tempered(posterior, labels, self.novelty.of_labels(X, labels))

    def read(
        self, indices: Integers, squares: Floats, X: Floats | None = None, remainders: Floats | None = None
    ) -> tuple[NDArray[np.float32], NDArray[np.int32], NDArray[np.float32]]:
        """The same for rows with known neighbours among the fitted rows; X are the scaled rows, if any.

        `remainders` are norms of what components leave of the rows, if X are components.
        """
        posterior, labels = self.model.read(indices, squares, X, remainders)
        if self.novelty is None:
            return posterior, labels, np.full(len(labels), np.nan, np.float32)
        return self._tempered(posterior, labels, self.novelty.of_neighbors(indices, squares, remainders))

    def _tempered(self, posterior: Any, labels: Any, found: NDArray[np.float32]) -> Any:
        assert self.novelty is not None
        return novelty.tempered(posterior, found / self.novelty.trusted, self._uniform), labels, found
