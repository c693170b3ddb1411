"""numbering: numbers that clusters take from an earlier run, in place of the stages' own.

Stages number clusters from 0 to c - 1. With ``like=``, a cluster that continues one of the earlier run has its number,
and a new one has a number that was never used. Posteriors then have a column for every number ever used, which is 0 for
clusters that vanished. Rows of the output and predictions are renumbered here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.types import Floats, Integers

STAGE = "numbering"
LIKE = "like"
"""Entry of a run's identity for the run whose numbers its clusters take."""
READS = {STAGE: None}


@dataclass(frozen=True)
class Numbering:
    """Numbers of the clusters of a fit.

    Parameters
    ----------
    numbers : ndarray of int64, shape (c,)
        Distinct numbers, indexed by the stages' own.
    width : int
        One more than the largest number ever used.
    """

    numbers: Integers
    width: int

    def labels(self, labels: Integers) -> NDArray[np.int32]:
        """Renumbered labels: int32, of the same shape; -1 is kept."""
        return self._with_none[labels]

    @cached_property
    def _with_none(self) -> NDArray[np.int32]:
        return np.append(self.numbers, -1).astype(np.int32)

    def spread(self, values: NDArray[Any], fill: float = 0, axis: int = 0) -> NDArray[Any]:
        """Values of clusters, placed at their numbers; `fill` for numbers without a cluster of the fit."""
        shape = list(values.shape)
        shape[axis] = self.width
        spread: NDArray[Any] = np.full(shape, fill, values.dtype)
        spread[(slice(None),) * axis + (self.numbers,)] = values
        return spread

    def rows(self, found: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Per-row arrays, with labels and posterior renumbered."""
        changed = {"labels": self.labels(found["labels"]), "posterior": self.spread(found["posterior"], axis=1)}
        return {**found, **changed}


def of(context: Context) -> Numbering | None:
    """Numbers of the clusters of a run; None if they are the stages' own."""
    if not context.cached(LIKE, lambda: LIKE in context.run.identity):
        return None
    found: Numbering | None = context.known(STAGE, lambda: _read(context))
    return found


def _read(context: Context) -> Numbering | None:
    run = context.run
    may_lack = run.is_writable or context.settings.undecided  # if it goes on, is a cut, or has no clusters
    if may_lack and not run.done(STAGE, 0):
        return None
    return Numbering(run.read(STAGE, 0, "numbers"), run.info(STAGE, 0)["width"])


def spread(context: Context, values: NDArray[Any], fill: float = 0) -> NDArray[Any]:
    """Values of the stages' clusters, by the users' numbers; see :meth:`Numbering.spread`."""
    found = of(context)
    return values if found is None else found.spread(values, fill)


def labels(context: Context, values: Integers) -> Integers:
    """The users' numbers for the stages' own."""
    found = of(context)
    return values if found is None else found.labels(values)


def width(context: Context, n_clusters: int) -> int:
    """Number of columns of the posterior of a fit that found so many clusters."""
    found = of(context)
    return n_clusters if found is None else found.width


def begin(job: Job) -> None:
    """Strike the output of a run without numbers off the ledger, as it may have had numbers that were lost."""
    if not job.run.done(STAGE, 0):
        job.run.drop("output", job.context.source_blocks)


def write(job: Job, found: Numbering, info: Mapping[str, Any]) -> None:
    """Number the clusters of a fit; output that was written without these numbers is struck off and written again.

    It is struck off first, so that a run with numbers never has output without them, wherever this process ends.
    """
    begin(job)
    job.run.write(STAGE, 0, {"numbers": found.numbers}, info={"width": found.width, **info})


def info(context: Context) -> dict[str, Any]:
    """The info stored with the numbers of a run; empty if it has none."""
    if of(context) is None:
        return {}
    noted: dict[str, Any] = context.run.info(STAGE, 0)
    return noted


class NumberedModel:
    """Model of a fit whose clusters have numbers from an earlier run.

    Parameters
    ----------
    model : callable
        Model of the method.
    numbering : Numbering
    """

    def __init__(self, model: Any, numbering: Numbering) -> None:
        self.model, self.numbering = model, numbering
        self.n_clusters = numbering.width
        self.reads: dict[str, Iterable[str] | None] = model.reads | READS

    def __call__(self, X: Floats) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
        """Posteriors and labels of scaled rows, float32 (b, width) and int32 (b,)."""
        return self._numbered(*self.model(X))

    def read(self, *neighbors: Any) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
        """Posteriors and labels of rows whose neighbours are known, for models on graphs."""
        return self._numbered(*self.model.read(*neighbors))

    def _numbered(self, posterior: Floats, labels: Integers) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
        return self.numbering.spread(posterior, axis=1), self.numbering.labels(labels)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.model, name)
