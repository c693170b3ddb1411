"""drift_reference, drift: variation between stretches of the fitted rows, and tests of whether new rows differ more."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics import drift
from bigsmic.numerics.drift import Batches
from bigsmic.numerics.hashing import draw_rows
from bigsmic.numerics.labeling.novelty import shapes
from bigsmic.prediction import model_of
from bigsmic.runtime.context import Context
from bigsmic.stages import novelty, projection, update_log
from bigsmic.stages.novelty import Assessor
from bigsmic.stages.rowwise_output import read_array
from bigsmic.stages.update_log import Entry
from bigsmic.types import Floats, Integers

REFERENCE, STAGE = update_log.DRIFT_REFERENCE, update_log.DRIFT
LEAST_ROWS = 50  # new rows, with fewer of which there is no verdict
MOST_BATCHES, BATCH_SAMPLE = 32, 256
"""Number of stretches that are compared, and of sampled rows of each."""
RECOMMENDED = "refit recommended"
"""Verdict on new rows that differ from the fit by more than its stretches differ from each other."""
SPARE_NEIGHBORS = 44  # of a fitted row beyond those wanted, as those near in time are left out


class Reference(NamedTuple):
    """Statistics of stretches of the fitted rows.

    Parameters
    ----------
    batches : Batches
    spreads : ndarray of float64, shape (c, d)
    length : int
        Number of rows of a stretch.
    """

    batches: Batches
    spreads: NDArray[np.float64]
    length: int


def level_of(n_fitted: int, n_new: int) -> int | None:
    """Binary logarithm of the length of the stretches with which new rows are compared; None if rows are too few."""
    if n_new < LEAST_ROWS or n_fitted < LEAST_ROWS * drift.LEAST_BATCHES:
        return None
    most = int(np.log2(n_fitted // drift.LEAST_BATCHES))
    return min(most, round(np.log2(n_new)))


def reference_of(context: Context, level: int) -> Reference:
    """Statistics of stretches of ``2**level`` fitted rows, which are stored in the run."""
    run = context.run
    if run.done(REFERENCE, level):
        read = run.reader(REFERENCE, level)
        stored = Reference(Batches(*(read(name) for name in Batches._fields)), read("spreads"), 2**level)
        if stored.spreads.shape[1] == context.d and stored.batches.sampled.shape[1] == 1 + len(stored.spreads):
            return stored
        run.forget(REFERENCE, level)  # of components, in place of columns, or without rows in no cluster
    found = _make_reference(context, 2**level)
    run.write(REFERENCE, level, found.batches._asdict() | {"spreads": found.spreads})
    return found


def _make_reference(context: Context, length: int) -> Reference:
    count = min(MOST_BATCHES, context.n // length)
    starts = np.linspace(0, context.n - length, count).astype(np.int64)
    labels, c = read_array(context, "labels"), read_array(context, "posterior").shape[1]
    stored, rows = _sample(context, starts, length)
    X = context.column_scaler.apply(stored)  # and not their components, as the test of a shift names a column
    y = np.asarray(labels[rows])
    novel = _novelty_elsewhere(context, stored, rows, length) > 1
    known = y >= 0
    spreads = shapes(X[known], y[known], c).spreads
    parts = []
    for start in starts.tolist():
        counts = np.bincount(labels[start : start + length] + 1, minlength=c + 1)[1:]
        inside = (rows >= start) & (rows < start + length)
        parts.append(facts(counts, X[inside], y[inside], novel[inside]))
    return Reference(together(parts), spreads, length)


def _sample(context: Context, starts: Integers, length: int) -> tuple[NDArray[Any], Integers]:
    """Sampled rows, as stored, of some stretches, up to :data:`BATCH_SAMPLE` of each, and their numbers."""
    parts = [context.scan(s, "sample", "sample_rows") for s in context.source_blocks]
    rows = np.concatenate([numbers for _, numbers in parts])
    chosen = []
    for start in starts.tolist():
        inside = np.flatnonzero((rows >= start) & (rows < start + length))
        chosen.append(inside[draw_rows(len(inside), BATCH_SAMPLE, context.settings.seed, REFERENCE)])
    places = np.unique(np.concatenate(chosen))
    X = np.concatenate([sample for sample, _ in parts])[places]
    return X, rows[places]


def _novelty_elsewhere(context: Context, stored: NDArray[Any], rows: Integers, length: int) -> NDArray[np.float32]:
    """Novelty of fitted rows compared with rows at least a stretch away from them, as new rows are from all.

    Neighbours in time are similar, and share samples if windows overlap.
    """
    assessor = Assessor(context, model_of(context))
    if assessor.novelty is None:
        return np.zeros(len(stored), np.float32)
    X = context.scaler.apply(stored)
    if not hasattr(assessor.model, "search"):
        return assessor.novelty.of_labels(X, np.asarray(read_array(context, "labels")[rows]))
    indices, squares = assessor.model.search(X, assessor.model.n_found + SPARE_NEIGHBORS)
    known = np.unique(indices[indices >= 0])
    numbers = assessor.model.row_numbers(known)
    apart = np.abs(numbers[np.searchsorted(known, np.maximum(indices, 0)).clip(max=len(known) - 1)] - rows[:, None])
    far = (apart >= length) & (indices >= 0)
    far[~far.any(axis=1), -1] = True
    k = assessor.model.n_found
    order = np.argsort(~far, axis=1, kind="stable")[:, :k]
    left = np.take_along_axis(far, order, axis=1)
    near = np.where(left, np.take_along_axis(indices, order, axis=1), -1)
    far_squares = np.where(left, np.take_along_axis(squares, order, axis=1), np.inf)
    remainders = projection.remainders_of(context, stored, fitted=True)
    return assessor.novelty.of_neighbors(near, far_squares, remainders)


def facts(counts: Integers, X: Floats, labels: Integers, novel: NDArray[np.bool_]) -> Batches:
    """Statistics of one stretch: counts of all rows in clusters, and sums over a sample of rows in any or none."""
    c = len(counts)
    known = labels >= 0
    sums = np.zeros((c, X.shape[1]))
    np.add.at(sums, labels[known], X[known])
    sampled = np.bincount(np.where(known, labels, c), minlength=c + 1)
    arrays = (counts, sampled, sums, novel.sum())
    return Batches(*(np.asarray(array, np.float64)[None] for array in arrays))


def pooled_spreads(reference: Reference, X: Floats, labels: Integers) -> NDArray[np.float64]:
    """Spreads within clusters of the fitted rows and the new ones together, shape (c, d).

    Those of the fit alone include the rows of every stretch, but not the new ones: of a column that is constant in a
    cluster but for a rare row, the next such row would be far outside of them.
    """
    found = reference.spreads.copy()
    rows = np.maximum(reference.batches.sampled[:, : len(found)].sum(axis=0), 1)
    for y in np.unique(labels[labels >= 0]):
        part = X[labels == y].astype(np.float64)
        squares = rows[y] * np.square(found[y]) + len(part) * part.var(axis=0)
        found[y] = np.sqrt(squares / (rows[y] + len(part)))
    return found


def together(parts: list[Batches]) -> Batches:
    """Concatenate statistics of several stretches."""
    return Batches(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def judge(context: Context, source: Any, entry: Entry) -> dict[str, Any]:
    """Compare the rows of one call of update with the fit, and store the result in the run.

    Parameters
    ----------
    context : Context
        Its run is open for writing.
    source : Source
        The archive.
    entry : Entry
        Finished.
    """
    run = context.run
    if not run.done(STAGE, entry.number):
        run.write(STAGE, entry.number, {}, info=_judged(context, source, entry))
    found: dict[str, Any] = run.info(STAGE, entry.number)
    return found


def _judged(context: Context, source: Any, entry: Entry) -> dict[str, Any]:
    labels, novel, sure = (_read(context, entry, name) for name in ("labels", "novelty", "confidence"))
    valid = ~np.isnan(novel) if context.run.done(novelty.STAGE, 0) else labels >= 0
    few = "too few new rows"
    found: dict[str, Any] = {"rows": int(valid.sum()), "tests": {}, "verdict": "unknown", "reason": few}
    found["confidence"] = float(sure[valid].mean()) if valid.any() else None
    places = np.flatnonzero(valid)  # also those in no cluster, where a regime is that the fit has not seen
    found["sizes"] = np.bincount(labels[valid & (labels >= 0)]).tolist()
    level = level_of(context.n, len(places))
    if level is None:
        return found
    reference = reference_of(context, level)
    X, drawn = _drawn(context, source, entry, places, reference)
    sizes = _padded(found["sizes"], reference.batches.counts.shape[1])
    new = facts(sizes, X, labels[drawn], novel[drawn] > 1)
    spreads = pooled_spreads(reference, X, labels[drawn])
    tests = _tests(context, entry, reference._replace(spreads=spreads), new, found)
    names, column = source.column_names, tests["shift"]["column"]
    tests["shift"]["name"] = names[column] if names else f"column {column}"
    failed = [name for name, test in tests.items() if test["p"] < drift.LEVEL]
    found |= {"tests": tests, "batches": len(reference.batches.novel), "batch_rows": reference.length}
    found["verdict"] = RECOMMENDED if failed else "none"
    found["reason"] = "; ".join(_sentence(name, tests[name]) for name in failed) or "as stretches of the fit differ"
    return found


def _tests(context: Context, entry: Entry, reference: Reference, new: Batches, found: Any) -> dict[str, Any]:
    length = found["rows"] / reference.length
    quiet = [info for info in context.run.infos(STAGE, range(entry.number)) if info["verdict"] == "none"]
    before = np.array([info["confidence"] for info in quiet])
    shares = {}
    if new.counts.sum() >= LEAST_ROWS:
        shares["shares"] = drift.shares(reference.batches, new, length)
        if len(sizes := _sizes(quiet, new.counts.shape[1])):
            shares["recent_shares"] = drift.recent_shares(reference.batches, new, sizes, length)
    return {
        **shares,
        "novelty": drift.novelty(reference.batches, new, length),
        "shift": drift.shift(reference.batches, new, reference.spreads, length),
        "confidence": drift.confidence(before, found["confidence"]),
    }


def _sizes(earlier: list[dict[str, Any]], c: int) -> NDArray[np.float64]:
    """Rows of every cluster in earlier updates, shape (updates, c)."""
    return np.array([_padded(info["sizes"], c) for info in earlier], np.float64).reshape(len(earlier), c)


def _padded(sizes: list[int], c: int) -> Integers:
    """Rows of c clusters, of which the last ones may have none."""
    return np.array(sizes + [0] * (c - len(sizes)))


def _read(context: Context, entry: Entry, name: str) -> NDArray[Any]:
    """Labels, novelty, or the largest posterior, of the rows of one call."""
    if name == "confidence":
        parts = [posterior.max(axis=1) for posterior in update_log.read_blocks(context.run, [entry], "posterior")]
    else:
        parts = list(update_log.read_blocks(context.run, [entry], name))
    return np.concatenate(parts)


def _drawn(
    context: Context, source: Any, entry: Entry, places: Integers, reference: Reference
) -> tuple[Floats, Integers]:
    """A sample of the new rows, as large as those of the batches on average: scaled columns, and places."""
    wanted = max(1, round(reference.batches.sampled.sum() / len(reference.batches.novel)))
    drawn = places[draw_rows(len(places), wanted, context.settings.seed + entry.number, STAGE)]
    return np.concatenate([context.column_scaler.apply(rows) for rows in _rows(source, entry, drawn)]), drawn


def _rows(source: Any, entry: Entry, drawn: Integers) -> Any:
    """Some of the rows of one call, read block by block."""
    for block in entry.blocks:
        lo, hi = entry.rows(block)
        inside = drawn[(drawn + entry.first >= lo) & (drawn + entry.first < hi)]
        if len(inside):
            yield source.read(lo, hi)[inside + entry.first - lo]


def _sentence(name: str, test: dict[str, Any]) -> str:
    """Result of a test as a sentence."""
    if name in ("shares", "recent_shares"):
        rows = f"the rows of {test['nights']} updates" if name == "recent_shares" else "the rows"
        return f"cluster {test['cluster']} has {test['now']:.1%} of {rows}, {test['before']:.1%} in the fit"
    if name == "novelty":
        return f"{test['now']:.1%} of the rows are novel, {test['before']:.1%} in the fit"
    if name == "shift":
        return f"{test['name']} has moved by {test['by']:+.2g} of its spread in cluster {test['cluster']}"
    return f"the largest posterior is {test['now']:.3f} on average, {test['before']:.3f} in earlier updates"


def read_all(run: Any) -> list[dict[str, Any]]:
    """Results for every finished call of update, in order."""
    known = {entry.number: entry for entry in update_log.entries(run)}
    numbers = [number for number in run.numbers(STAGE) if number in known]
    return [
        {"update": number, "first": known[number].first, "last": known[number].last} | run.info(STAGE, number)
        for number in numbers
    ]
