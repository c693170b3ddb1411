"""A method of another package: clusters are shells around the mean row, of about equal numbers of rows."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bigsmic.result import Result as BaseResult
from bigsmic.runtime import planning
from bigsmic.settings import INTEGER, POSITIVE, MethodSettings, option
from bigsmic.stages import rowwise_output, scan

SAMPLE_ROWS = 10_000


@dataclass(frozen=True)
class Settings(MethodSettings):
    """What a fit by shells is asked to do."""

    method: ClassVar[str] = "shells"

    n_clusters: int = 2
    power: float = option(2.0, POSITIVE, help="Norm by which distance is measured. 2 is that of Euclid.")
    scale: str | None = option("standard", choices=("standard", None), help="What centred columns are divided by.")
    seed: int = option(0, INTEGER, help="Of the sample.")


def plan(size, settings, memory_limit, n_threads, checkpoints):
    """Memory, disk and work of every stage."""
    limit, wanted = planning.limit_of(memory_limit), min(size.n, SAMPLE_ROWS)
    bounds = size.source_bounds
    block = int(bounds[1]) * (size.d * (size.itemsize + 12) + 8 * settings.n_clusters)
    stages = (
        planning.scan_stage(size, wanted),
        planning.StagePlan("radii", 1, size.band_bytes, 12 * wanted * size.d),
        planning.StagePlan("output", len(bounds) - 1, size.band_bytes, block, disk_bytes=8 * size.n),
    )
    return planning.Plan(size, limit, planning.widened(stages, limit, n_threads), wanted, checkpoints=checkpoints)


def run(job):
    """Each stage does what the ledger lacks."""
    with job.timed("scan"):
        scan.run(job)
    with job.timed("radii"):
        job.run_steps("radii", [0], _find_radii)
    with job.timed("output"):
        job.fill("sizes", job.context.source_blocks, _count)
        rowwise_output.run(job)


def _find_radii(job, _):
    """Find the radii between shells, from the sample that the scan drew."""
    context, c = job.context, job.context.settings.n_clusters
    distances = _distances(context.read_sample(), context.settings.power)
    job.run.write("radii", 0, {"radii": np.quantile(distances, np.arange(1, c) / c)})


def _count(context, s):
    """Note how many rows of one block of input are in each shell."""
    _, labels = model(context)(context.scaled_block(s))
    context.run.write("sizes", s, {"counts": np.bincount(labels, minlength=context.settings.n_clusters)})


def _distances(X, power):
    return np.linalg.norm(X.astype(np.float64), ord=power, axis=1)


def temporary(settings):
    """Stages that are deleted when the fit has ended."""
    return ("sizes",)


def summary(job):
    """Facts for the diagnostics."""
    counts = [found for (found,) in job.run.gather("sizes", job.context.source_blocks, ["counts"])]
    return {"sizes": np.sum(counts, axis=0).tolist()}


def model(context):
    """What predictions need of a finished fit."""
    return Model(context.run.read("radii", 0, "radii"), context.settings.power)


@dataclass(frozen=True)
class Model:
    """Posteriors and labels of scaled rows."""

    reads: ClassVar = {"radii": None}

    radii: np.ndarray
    power: float

    @property
    def n_clusters(self):
        """Number of shells."""
        return len(self.radii) + 1

    def __call__(self, X):
        """Posteriors (b, c) and labels (b,) of rows (b, d)."""
        labels = np.searchsorted(self.radii, _distances(X, self.power)).astype(np.int32)
        return np.eye(self.n_clusters, dtype=np.float32)[labels], labels


class Result(BaseResult):
    """What a fit by shells has found."""

    @property
    def sizes(self):
        """Rows of every shell."""
        return np.array(self.diagnostics["sizes"])
