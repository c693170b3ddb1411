"""Search along the path of solutions, by ascents that are not in the run directory yet."""

import math

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.objectives.rim import adam, logits
from bigsmic.numerics.objectives.rim.linear import Linear, linear_information
from bigsmic.numerics.objectives.rim.logits import Information
from bigsmic.numerics.objectives.rim.path import Point
from bigsmic.runtime.job import Job
from bigsmic.stages.rim.ascent import Ascent
from bigsmic.stages.rim.classifier import information, objective, read_model
from bigsmic.stages.rim.lbfgs import ascend_by_gradients
from bigsmic.stages.rim.minibatches import ascend_by_batches
from bigsmic.stages.rim.rows import with_labels
from bigsmic.types import Floats, Integers

LEAST_STEPS = 200  # of an ascent by minibatches, if the number of epochs is not given; twice as many from the start


class Search:
    """Points of a fit, numbered in the order of the search; those in the run directory are read from there.

    Parameters
    ----------
    job : Job
    """

    def __init__(self, job: Job) -> None:
        self.job, self.context, self.settings = job, job.context, job.context.settings
        self.with_labels, self.attempt, self.count = with_labels(self.context), 0, 0
        self.known = len(self.with_labels)
        self.spread = adam.spread(self.context.read_sample())

    def solve(self, reg: float, parent: Point | None) -> Point:
        """Return the point reached at one strength from the living categories of another point, or from the start."""
        model = read_model(self.context, "start", self.attempt) if parent is None else self.living(parent)
        return self.ascend(reg, model, fresh=parent is None and self.settings.n_clusters is None)

    def ascend(self, reg: float, model: Linear, fresh: bool = False, polish: int = 0) -> Point:
        """The point reached at one strength from a classifier."""
        number, self.count = self.count, self.count + 1
        if not self.job.run.done("point", number):
            fixed = model.n_categories if isinstance(self.settings.prior, tuple) else self.known
            ascent = Ascent(number, float(reg), self._epochs(fresh), self.spread, fixed)
            self._ascend_to(ascent, model, polish)
        return Point(number, float(reg), self.job.run.info("point", number)["alive"])

    def _ascend_to(self, ascent: Ascent, model: Linear, polish: int) -> None:
        job, settings = self.job, self.settings
        if polish or not settings.by_batches(self.context.n):
            model = ascend_by_gradients(job, ascent, model, polish or settings.max_iter)
        else:
            model = ascend_by_batches(job, ascent, model)
        sums = information(job, model)
        info = {
            "reg": ascent.reg,
            "alive": self._alive(sums),
            "objective": objective(self.context, sums, model, ascent.reg),
        }
        arrays = model._asdict() | {"mass": sums.mass, "counts": sums.counts}
        job.run.write("point", ascent.number, arrays, info=info)
        job.run.drop(ascent.stage, [block for stage, block in job.run.blocks() if stage == ascent.stage])

    def _epochs(self, fresh: bool) -> int:
        """Number of epochs of an ascent; ascents along a path start near their optimum and need fewer."""
        if self.settings.n_epochs is not None:
            return self.settings.n_epochs
        steps = max(1, round(self.context.n / self.settings.batch_size))
        return math.ceil((2 if fresh else 1) * LEAST_STEPS / steps)

    def _alive(self, sums: Information) -> int:
        """Number of categories that are kept; one if all rows have nearly the same posterior, as after a collapse."""
        collapsed = not self.known and logits.objective(sums) < logits.LEAST_INFORMATION
        return 1 if collapsed else int(self._are_alive(sums.counts).sum())

    def has_collapsed(self, point: Point) -> bool:
        """Whether sampled rows have nearly the same posterior though known labels keep their categories alive."""
        if not self.known:
            return False
        sums = linear_information(self.context.read_sample(), read_model(self.context, "point", point.number))
        return bool(logits.objective(sums) < logits.LEAST_INFORMATION)

    def _are_alive(self, counts: Integers) -> NDArray[np.bool_]:
        """Categories that are alive, or have rows of known labels."""
        alive = counts > 0
        alive[: self.known] |= self.with_labels
        return alive

    def _kept(self, counts: Integers) -> Integers:
        """Numbers of the categories that are kept: those that are alive, and that have the numbers of known labels.

        If a number below the largest known label has no labelled row and its category has died, another one that is
        alive takes its place, unless a prior tells them apart.
        """
        alive, first = self._are_alive(counts), np.arange(self.known)
        others = self.known + np.flatnonzero(alive[self.known :])
        vacant = np.flatnonzero(~alive[: self.known])[: len(others)]
        if isinstance(self.settings.prior, tuple):
            vacant = vacant[:0]
        first[vacant] = others[: len(vacant)]
        return np.concatenate([first, others[len(vacant) :]])

    def living(self, point: Point) -> Linear:
        """The classifier of a point without dead categories."""
        kept = self._kept(self.job.run.read("point", point.number, "counts"))
        return read_model(self.context, "point", point.number).columns(kept)

    def masses(self, point: Point) -> Floats:
        """Summed posteriors of the living categories of a point."""
        read = self.job.run.reader("point", point.number)
        return read("mass")[self._kept(read("counts"))]

    def close(self, point: Point, n_clusters: int) -> Linear:
        """The classifier of a point with the smallest categories removed one by one, and an ascent after each.

        If an ascent would lose further categories, it is left out, and the rows go to their next best category.
        """
        model, masses = self.living(point), self.masses(point)
        while model.n_categories > n_clusters:
            smallest = self.known + int(masses[self.known :].argmin())
            kept = np.arange(len(masses)) != smallest
            model, masses = model.columns(kept), masses[kept]
            found = self.ascend(point.reg, model)
            if found.alive == model.n_categories:
                model, masses = self.living(found), self.masses(found)
        return model
