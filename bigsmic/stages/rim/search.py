"""The search for a point: which ascents a fit makes, and which of them the run directory has."""

import math

import numpy as np

from bigsmic.numerics.objectives.rim import adam
from bigsmic.numerics.objectives.rim.path import Point
from bigsmic.runtime.job import Job
from bigsmic.stages.rim.ascent import Ascent
from bigsmic.stages.rim.classifier import information, objective, read_model
from bigsmic.stages.rim.lbfgs import ascend_by_gradients
from bigsmic.stages.rim.minibatches import ascend_by_batches
from bigsmic.stages.rim.rows import n_known

LEAST_STEPS = 200  # of an ascent by minibatches, where the number of epochs is not given; twice as many from the start


class Search:
    """Points of a fit, numbered as they are asked for; those in the run directory are not ascended to again.

    Parameters
    ----------
    job : Job
    """

    def __init__(self, job: Job):
        self.job, self.context, self.settings = job, job.context, job.context.settings
        self.known, self.attempt, self.count = n_known(self.context), 0, 0
        self.spread = adam.spread(self.context.sample)

    def solve(self, reg, parent):
        """The point reached at one strength from another point's living categories, or from the start."""
        model = read_model(self.context, "start", self.attempt) if parent is None else self.living(parent)
        return self.ascend(reg, model, fresh=parent is None and self.settings.n_clusters is None)

    def ascend(self, reg, model, fresh=False, polish=0):
        """The point reached at one strength from a classifier."""
        number, self.count = self.count, self.count + 1
        if not self.job.run.done("point", number):
            fixed = model.n_categories if isinstance(self.settings.prior, tuple) else self.known
            ascent = Ascent(number, float(reg), self._epochs(fresh), self.spread, fixed)
            self._ascend_to(ascent, model, polish)
        return Point(number, float(reg), self.job.run.info("point", number)["alive"])

    def _ascend_to(self, ascent, model, polish):
        job, settings = self.job, self.settings
        if polish or not settings.by_batches(self.context.n):
            model = ascend_by_gradients(job, ascent, model, polish or settings.max_iter)
        else:
            model = ascend_by_batches(job, ascent, model)
        sums = information(job, model)
        info = {
            "reg": ascent.reg,
            "alive": int(self._kept(sums.counts).sum()),
            "objective": objective(self.context, sums, model, ascent.reg),
        }
        arrays = model._asdict() | {"mass": sums.mass, "counts": sums.counts}
        job.run.write("point", ascent.number, arrays, info=info)
        job.run.drop(ascent.stage, [block for stage, block in job.run.blocks() if stage == ascent.stage])

    def _epochs(self, fresh):
        """Epochs of an ascent; a path goes on from where one was, and needs fewer."""
        if self.settings.n_epochs is not None:
            return self.settings.n_epochs
        steps = max(1, round(self.context.n / self.settings.batch_size))
        return math.ceil((2 if fresh else 1) * LEAST_STEPS / steps)

    def _kept(self, counts):
        """Categories that are alive, or that labels name."""
        return (counts > 0) | (np.arange(len(counts)) < self.known)

    def living(self, point):
        """The classifier of a point without the categories that have died."""
        kept = self._kept(self.job.run.read("point", point.number, "counts"))
        return read_model(self.context, "point", point.number).columns(kept)

    def masses(self, point):
        """Summed posteriors of the living categories of a point."""
        read = self.job.run.reader("point", point.number)
        return read("mass")[self._kept(read("counts"))]

    def close(self, point, n_clusters):
        """The living categories of a point without the smallest ones; the others ascend anew after each one closed.

        Where an ascent would lose more than the one, the category's rows just go to the next best.
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
