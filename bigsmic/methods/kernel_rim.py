"""Kernel RIM: scan -> map -> ascent -> output, linear RIM on a kernel's features; on the neighbour graph, MIC at one t.

A feature kernel is given by name, as a function, or by its values. Rows are mapped when they are read, so that a fit
needs as little memory as linear RIM, and has all of its options. See `numerics.objectives.kernel_features`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from bigsmic.errors import InputError
from bigsmic.methods import mic
from bigsmic.methods.rim import method as rim
from bigsmic.methods.rim.pages import features, path
from bigsmic.methods.rim.planning import START_ROWS
from bigsmic.numerics.hashing import draw_rows
from bigsmic.numerics.mutual_information.gaussian_basis import SAMPLE_ROWS
from bigsmic.numerics.objectives import kernel_features
from bigsmic.numerics.objectives.kernel_features import Columns, Fourier, Kernel, Nystrom
from bigsmic.numerics.scaling import Scaler
from bigsmic.result import Result
from bigsmic.runtime import planning
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.runtime.planning import Size, StagePlan
from bigsmic.settings.kernel_rim import GRAPH, Settings
from bigsmic.stages import distinct, scan
from bigsmic.stages.graph_pipeline import temporary
from bigsmic.stages.rim.rows import keep_side_inputs
from bigsmic.types import Floats, Integers, StorageOptions

__all__ = ["Result", "Settings", "admit", "model", "pages", "plan", "run", "summary", "temporary"]


def admit(
    settings: Any, given: Mapping[str, Any], n_rows: int, storage_options: StorageOptions = None
) -> tuple[Any, dict[str, Any]]:
    """Settings, and known labels and weights of rows, read and checked."""
    settings, side_inputs = rim.admit(settings, given, n_rows, storage_options)
    if side_inputs and settings.kernel == GRAPH:
        raise InputError(f"kernel: 'local_scaling' has no {', '.join(sorted(side_inputs))}; use another kernel")
    return settings, side_inputs


# -- features in place of rows


class Mapped:
    """Source of features: input rows and their feature map.

    Parameters
    ----------
    context : Context
        Context of the rows.
    """

    def __init__(self, context: Context) -> None:
        self.context = context

    @cached_property
    def map(self) -> Any:
        """The features of the fit."""
        return read_map(self.context)

    def drop_decoded(self) -> None:
        """Drop decoded chunks of the rows."""
        self.context.source.drop_decoded()

    def __getstate__(self) -> dict[str, Any]:
        return {"context": self.context}


class OnFeatures(Context):
    """Context for the stages of linear RIM: the same blocks, with features in place of rows.

    Parameters
    ----------
    rows : Context
        Context of the fit.
    """

    def __init__(self, rows: Context) -> None:
        super().__init__(Mapped(rows), rows.run, rows.settings.linear)
        self.rows = rows

    @property
    def d(self) -> int:
        """Number of features."""
        return self.source.map.width

    @cached_property
    def source_bounds(self) -> Any:
        """Bounds of the blocks of input rows."""
        return self.rows.source_bounds

    def scaled_block(self, s: int) -> Floats:
        """Features of the rows of one block of input, float32."""
        return self.source.map(self.rows.scaled_block(s))

    @cached_property
    def scaler(self) -> Scaler:
        """Identity, as features are not scaled."""
        return Scaler(np.zeros(self.d), np.ones(self.d))

    def read_sample(self) -> Floats:
        """Features of the rows drawn by hash."""
        return self.source.map(self.rows.read_sample())

    def __getstate__(self) -> dict[str, Any]:
        return {"source": self.source, "run": self.run, "settings": self.settings, "rows": self.rows}


def read_map(context: Context) -> Fourier | Columns | Nystrom:
    """The feature map of a fit."""
    read, settings = context.run.reader("map", 0), context.settings
    if settings.approximation == "fourier":
        return Fourier(read("W"), read("b"))
    if settings.kernel == "precomputed":
        return Columns(read("columns"), read("M"))
    return Nystrom(Kernel(settings.kernel, context.run.info("map", 0)["length_scale"]), read("landmarks"), read("M"))


def _find_map(job: Job, _: int) -> None:
    """Draw landmarks or frequencies."""
    context, settings = job.context, job.context.settings
    if settings.kernel == "precomputed":
        _write_columns(job)
        return
    sample = context.read_sample()
    drawn, few = (
        draw_rows(len(sample), count, settings.seed, purpose)
        for count, purpose in ((settings.n_components, "landmarks"), (SAMPLE_ROWS, "lsmi-sample"))
    )
    landmarks, length_scale = sample[drawn], settings.length_scale
    if length_scale is None:
        length_scale = kernel_features.default_length_scale(settings.kernel, sample[few], landmarks[:SAMPLE_ROWS])
    elif settings.kernel in kernel_features.SCALED:
        K = Kernel(settings.kernel, length_scale)(sample[few], landmarks)
        kernel_features.refuse_other_scale(K, few[:, None] == drawn, length_scale, landmarks)
    if settings.approximation == "fourier":
        found = Fourier.draw(context.d, settings.n_components, length_scale, settings.seed)
        arrays = {"W": found.W, "b": found.b}
    else:
        M = kernel_features.whitener(Kernel(settings.kernel, length_scale)(landmarks, landmarks))
        arrays = {"landmarks": landmarks, "M": M}
    context.run.write("map", 0, arrays, info={"length_scale": length_scale})


def _write_columns(job: Job) -> None:
    """Write landmarks among the columns of a kernel given by its values."""
    context = job.context
    columns = draw_rows(context.n, context.settings.n_components, context.settings.seed, "landmarks")
    K = np.concatenate(job.map_blocks("map", context.source_blocks, partial(_values, columns=columns)))
    context.run.write("map", 0, {"columns": columns, "M": kernel_features.whitener(K)}, info={"length_scale": None})


def _values(context: Context, s: int, columns: Integers) -> Floats:
    lo, hi = (int(b) for b in context.source_bounds[s : s + 2])
    own = columns[(columns >= lo) & (columns < hi)]
    return np.asarray(context.input_block(s)[own - lo][:, columns], np.float64)


# -- the fit


def plan(size: Size, settings: Any, memory_limit: int | None, n_threads: int, checkpoints: bool) -> planning.Plan:
    """Plan a fit like RIM with as many columns as features, or like MIC.

    Raises
    ------
    PlanError
        A stage does not fit; the message names the remedy.
    """
    if settings.kernel == GRAPH:
        remedy = "use method='mic' with a smaller mlmi_rows"  # which kernel RIM lacks
        return mic.plan(size, settings.on_graph(size.n), memory_limit, n_threads, checkpoints, remedy)
    m = min(settings.n_components, size.n)
    d = size.n if settings.kernel == "precomputed" else size.d  # of a kernel of more rows, if these are planned for
    columns = replace(size, d=max(d, m))
    return rim.plan(columns, settings.linear, memory_limit, n_threads, checkpoints, partial(_with_map, size.n, m))


def _with_map(n: int, m: int, stages: Sequence[StagePlan]) -> tuple[StagePlan, ...]:
    """The stages of RIM, with the features of its sample, and the stage of the map."""
    sample = min(n, START_ROWS)
    algebra = planning.StagePlan("map", 1, 40 * m * m, 4 * sample * m, flops=20.0 * m**3)
    of_features = 16 * sample * m + (16 << 20)  # of the sample, as k-means takes them, and of a block
    first, *others = (replace(stage, fixed_bytes=stage.fixed_bytes + of_features) for stage in stages)
    fewer = f"give n_components below {m}"
    more = [replace(stage, remedy=f"{fewer}, or {stage.remedy}" if stage.remedy else fewer) for stage in others]
    return first, replace(algebra, remedy=fewer), *more


def run(job: Job) -> None:
    """Run the stages of a fit; each runs the blocks that the ledger lacks."""
    if job.context.settings.kernel == GRAPH:
        mic.run(job.under(_on_graph(job.context)))
        return
    with job.timed("scan"):
        scan.run(job)
        keep_side_inputs(job)
        job = distinct.fewer(job)
    with job.timed("map"):
        job.run_steps("map", [0], _find_map)
    rim.ascend(replace(job, context=OnFeatures(job.context)), weaken=True)  # as features vary less than scaled rows


def _on_graph(context: Context) -> Any:
    """Settings of the fit for MIC."""
    return context.settings.on_graph(context.n)


def summary(job: Job) -> dict[str, Any]:
    """Diagnostics: the classifier, and the path to it."""
    context = job.context
    if context.settings.kernel == GRAPH:
        return mic.summary(job.under(_on_graph(context)))
    features = OnFeatures(context)
    facts: dict[str, Any] = {"features": features.d, "length_scale": context.run.info("map", 0)["length_scale"]}
    return rim.summary(replace(job, context=features)) | facts


def model(context: Context) -> Any:
    """Model of a finished fit, for predictions."""
    if context.settings.kernel == GRAPH:
        return mic.model(context.under(_on_graph(context)))
    features = OnFeatures(context)
    return rim.Model(features, features.source.map)


def pages(result: Any) -> Sequence[Any]:
    """Sections of a report: the path of RIM and its features, or those of MIC."""
    return mic.pages(result) if result.settings.kernel == GRAPH else [*path(result), *features(result)]
