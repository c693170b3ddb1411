"""Scores of a fitted model on rows; larger is better."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigsmic.errors import InputError
from bigsmic.numerics.hashing import draw_rows
from bigsmic.numerics.mutual_information.lsmi import lsmi
from bigsmic.numerics.objectives.rim.adam import Aim
from bigsmic.numerics.objectives.rim.linear import Linear, linear_information, penalty
from bigsmic.numerics.objectives.rim.logits import objective
from bigsmic.numerics.one_thread import one_thread
from bigsmic.numerics.scaling import Scaler
from bigsmic.prediction import refuse_nonfinite
from bigsmic.result import Result
from bigsmic.runtime import block_sizes
from bigsmic.store import Source, open_source
from bigsmic.types import Rows

LSMI_ROWS = 10_000
LSMI_CENTERS = 200


def lsmi_score(result: Result, data: Rows, seed: int) -> float:
    """Squared-loss mutual information between rows and their predicted labels, without rows in no cluster.

    Parameters
    ----------
    result : Result
    data : array_like, Zarr array, dask array or path, shape (m, d)
    seed : int
        Seed of the draw of rows and centres.

    Returns
    -------
    float
    """
    source = _opened(data, result.diagnostics["columns"])
    drawn = draw_rows(source.shape[0], LSMI_ROWS, seed, "score")
    X = np.concatenate(
        [rows[drawn[(drawn >= lo) & (drawn < lo + len(rows))] - lo] for lo, rows in blocks(source, "score")]
    )
    labels = result.predict(X)
    X, labels = X[labels >= 0], labels[labels >= 0]
    if len(np.unique(labels)) < 2:  # which tell nothing of rows; the estimate would be slightly negative
        return 0.0
    return float(lsmi(result.scaled(X), labels, n_centers=min(LSMI_CENTERS, len(X)), seed=seed).value)


def objective_score(classifier: tuple[Linear, Scaler], aim: Aim, data: Rows) -> float:
    """Objective of RIM on rows.

    Parameters
    ----------
    classifier : tuple of Linear and Scaler
    aim : rim.Aim
    data : array_like, Zarr array, dask array or path, shape (m, d)

    Returns
    -------
    float
    """
    (model, scaler), total = classifier, None
    source = _opened(data, len(scaler.factor))
    with one_thread():
        for _, X in blocks(source, "score"):
            sums = linear_information(scaler.within_reach(X), model)
            total = sums if total is None else total + sums
    return float(objective(total, aim.prior, aim.tau) - penalty(model, aim.reg))


def _opened(data: Rows, d: int) -> Source:
    """Rows of d columns, at least one."""
    source = open_source(data)
    refuse_other_columns(source, d, "score")
    if not source.shape[0]:
        raise InputError(f"score: got no rows (shape {source.shape}); give at least 2")
    return source


def refuse_other_columns(source: Source, d: int, who: str) -> None:
    """Refuse rows of another number of columns than the fitted ones."""
    if source.shape[1] != d:
        raise InputError(
            f"{who}: X has {source.shape[1]} features, but the fit was made with {d} features; give rows of {d} columns"
        )


def blocks(source: Source, who: str) -> Iterator[tuple[int, NDArray[Any]]]:
    """First row and rows of every block of a source; `who` is the method that asks, for messages."""
    for lo, hi in itertools.pairwise(int(b) for b in block_sizes.DEFAULT.source_bounds(*source.shape)):
        X = source.read(lo, hi)
        refuse_nonfinite(source, X, range(lo, hi), who)
        yield lo, X
