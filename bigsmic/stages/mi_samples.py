"""Rows and centres for estimates of mutual information, drawn by hash from all row blocks."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from bigsmic.numerics.hashing import draw_rows
from bigsmic.numerics.mutual_information.gaussian_basis import SAMPLE_ROWS
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.types import Integers


def drawn_design(job: Job, stage: str, wanted: Any, labels_of: Callable[..., Any]) -> tuple[Any, Integers]:
    """Draw centres from all rows, and make the design of an estimate from them.

    Parameters
    ----------
    job : Job
    stage : str
    wanted : LSMISettings or MLMISettings
    labels_of : callable
        As in :func:`gather`.

    Returns
    -------
    design : LSMIDesign or MLMIDesign
    labels : ndarray of int32, shape (T, b)
        Labels of the centres.
    """
    sample = job.context.drawn_rows()
    rows = draw_rows(job.context.n, wanted.n_centers, wanted.seed, "lsmi-center")
    at, centers, labels = gather(job, stage, rows, np.asarray, labels_of)
    few = draw_rows(len(sample), SAMPLE_ROWS, wanted.seed, "lsmi-sample")
    return wanted.design(centers, at, job.context.scaler.apply(sample[few])), labels


def gather(job: Job, stage: str, rows: Integers, take: Callable[..., Any], labels_of: Callable[..., Any]) -> Any:
    """Gather features and labels of some rows.

    Parameters
    ----------
    job : Job
    stage : str
    rows : ndarray of int64, shape (m,)
    take : callable
        ``take(X)`` returns the features to gather from scaled rows (b, d), shape (b, ...).
    labels_of : callable
        ``labels_of(context, p, chosen)`` returns the labels of some rows of block p under T labelings, shape (T, b).

    Returns
    -------
    rows : ndarray of int64, shape (m,), ascending
    taken : ndarray, shape (m, ...)
    labels : ndarray of int32, shape (T, m)
    """
    task = partial(_read, rows=rows, take=take, labels_of=labels_of)
    at, taken, labels = zip(*job.map_blocks(stage, job.context.blocks, task), strict=True)
    order = np.argsort(np.concatenate(at))
    return np.concatenate(at)[order], np.concatenate(taken)[order], np.concatenate(labels, axis=1)[:, order]


def _read(context: Context, p: int, rows: Integers, take: Callable[..., Any], labels_of: Callable[..., Any]) -> Any:
    read = context.run.reader("rows", p)
    numbers = read("rows")
    chosen = np.isin(numbers, rows)
    return numbers[chosen], take(read("X")[chosen]), labels_of(context, p, chosen)
