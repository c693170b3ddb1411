"""RIM: scan -> start -> ascent -> output. An unsupervised linear classifier; see `numerics.objectives.rim`.

There is no graph: a fit keeps only some blocks of rows and the classifier in memory, which does not grow with the rows.
"""

from functools import partial
from typing import Any

import numpy as np

from bigsmic.errors import InputError
from bigsmic.methods.rim.pages import pages
from bigsmic.methods.rim.planning import plan
from bigsmic.methods.rim.result import Model, Result, scores_of
from bigsmic.methods.rim.side_inputs import admit, refuse_more_categories
from bigsmic.numerics.objectives.rim.linear import Linear
from bigsmic.numerics.objectives.rim.logits import power_exponent
from bigsmic.numerics.objectives.rim.path import Point, find_strength, refuse_collapse
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.settings.rim import Settings
from bigsmic.stages import distinct, numbering, scan
from bigsmic.stages.rim.classifier import objective, read_model
from bigsmic.stages.rim.minibatches import n_pools
from bigsmic.stages.rim.output import found_information, unevenness, write_output
from bigsmic.stages.rim.rows import keep_rows, keep_side_inputs
from bigsmic.stages.rim.search import Search
from bigsmic.stages.rim.start import find_categories
from bigsmic.store import Run
from bigsmic.validation import CLUSTERS
from bigsmic.warning import warn

__all__ = ["Model", "Result", "Settings", "admit", "ascend", "model", "pages", "plan", "run", "summary"]

FIRST_REG = 0.003  # times the mean variance of a column, at which few categories die
ATTEMPTS = 4  # at finding enough initial categories
MAX_DYING = 20
UNEVEN = 0.6
"""Largest share of the rows that may be in a cluster beyond its share of all rows, in their block of input, for batches
from some blocks at a time. Of ten clusters, .63 did no harm, and sorted rows, with .71, had an adjusted Rand index of
.54 instead of .94."""
MAX_HALVINGS = 16  # of a default strength


def run(job: Job) -> None:
    """Run the stages of a fit; each runs the blocks that the ledger lacks."""
    with job.timed("scan"):
        scan.run(job)
        keep_side_inputs(job)
        fewer = distinct.fewer(job)
    ascend(fewer)


def ascend(job: Job, weaken: bool = False) -> None:
    """Fit the classifier to scanned rows, and write labels and posteriors.

    Parameters
    ----------
    job : Job
    weaken : bool
        Whether the default strength is halved while a single category contains every row.
    """
    if job.plan.rows_in_memory:
        keep_rows(job.context)
    with job.timed("ascent"):
        if not _has_path(job.run):
            job.run.forget("model", 0)
        job.run_steps("model", [0], partial(_find, weaken=weaken))
    with job.timed("output"):
        write_output(job)
    _warn_of_sorted_rows(job.context)


def _warn_of_sorted_rows(context: Context) -> None:
    """Warn of batches that lacked clusters, as they are drawn from some blocks at a time."""
    if not context.settings.by_batches(context.n) or n_pools(context) == 1:
        return
    if (found := unevenness(context)) > UNEVEN:
        warn(
            f"rim: rows seem to be sorted, as {found:.0%} of them are in a cluster beyond its share of all rows, in "
            f"their part of the input, of at most {UNEVEN:.0%}; batches then lack clusters, and labels may be poor: "
            "give rows in random order, or solver='lbfgs'"
        )


def _has_path(run: Run) -> bool:
    """Whether every start and every point of the search exist, through which a repeated search would go."""
    if not run.done("model", 0):
        return False
    info = run.info("model", 0)
    starts = range(info["attempt"] + 1 if info["points"] else 0)
    return not run.missing("point", range(info["points"])) and not run.missing("start", starts)


def _find(job: Job, _: int, weaken: bool) -> None:
    """Fit the classifier, and write it."""
    n, settings = job.context.n, job.context.settings
    search, reg = Search(job), settings.strength(n)
    refuse_more_categories(search.known, settings.n_clusters or n)
    if settings.n_clusters == 1:
        found, reg = Linear.zeros(job.context.d, 1), 0.0
    elif settings.n_clusters is not None:
        found, reg = _with_clusters(search, settings.n_clusters, reg)
    else:
        weaken = weaken and settings.reg is None
        found, reg = _at_strength(search, reg, weaken) if reg is not None else _by_information(search)
    job.run.write("model", 0, found._asdict(), info={"reg": reg, "attempt": search.attempt, "points": search.count})


def _at_strength(search: Search, reg: float, weaken: bool) -> tuple[Linear, float]:
    """Find the categories that stay alive at a given strength, or at the first weaker one that leaves two."""
    find_categories(search.job, 0, reg)
    point = search.solve(reg, None)
    while weaken and point.alive < 2 and search.count <= MAX_HALVINGS:
        point = search.solve(point.reg / 2, None)
    refuse_collapse(point.alive, point.reg)
    return _polished(search, search.living(point), point.reg), point.reg


def _with_clusters(search: Search, n_clusters: int, reg: float | None) -> tuple[Linear, float]:
    """Find a number of categories: by the strength of the penalty, or at a given strength by removing the smallest."""
    guess = _guess(search.context) if reg is None else reg
    for search.attempt in range(ATTEMPTS):
        enough = find_categories(search.job, search.attempt, guess) >= n_clusters
        point = None
        if enough and reg is None:
            point = find_strength(search.solve, n_clusters, guess)
        elif enough:
            point = search.solve(guess, None)
        if point is not None and point.alive >= n_clusters:
            return _polished(search, search.close(point, n_clusters), point.reg), point.reg
        if reg is not None or search.settings.n_init_categories is not None or isinstance(search.settings.prior, tuple):
            break
    start = search.job.run.info("start", search.attempt)["categories"]
    remedy = "ask for fewer clusters" if reg is None else f"use a reg below {reg:.3g}, or ask for fewer clusters"
    shares = isinstance(search.settings.prior, tuple)  # one for each initial category, so that there are no more
    more = "leave out the shares of prior" if shares else "give more n_init_categories"
    raise InputError(
        f"{CLUSTERS}: got {n_clusters}, but fewer of {start} initial categories stay alive; {remedy}, or {more} "
        "unless most rows are equal"
    )


def _guess(context: Context) -> float:
    """Strength at which few categories die, in proportion to the variance of the scaled columns."""
    return FIRST_REG * max(float(np.square(context.read_sample()).mean()), 1e-12)


def _by_information(search: Search) -> tuple[Linear, float]:
    """Find the strength, along a path, whose labels have the largest LSMI on rows of the sample."""
    guess = _guess(search.context)
    find_categories(search.job, 0, guess)
    points: list[Point] = []
    point = search.solve(guess, None)
    while point.alive > 1 and not search.has_collapsed(point) and len(points) < MAX_DYING:
        points.append(point)
        point = search.solve(2 * point.reg, point)
    if not points:
        refuse_collapse(1, point.reg)
    scores = scores_of(search.context, [point.number for point in points])
    best = points[int(np.argmax(scores))]
    return _polished(search, search.living(best), best.reg), best.reg


def _polished(search: Search, found: Linear, reg: float) -> Linear:
    """The classifier after some exact iterations, if they were requested and lose no requested category."""
    settings = search.settings
    if not settings.polish:
        return found
    point = search.ascend(reg, found, polish=settings.polish)
    if settings.n_clusters is None:
        refuse_collapse(point.alive, reg)
    elif point.alive < found.n_categories:
        warn("polish: left out, as it would have lost a category")
        return found
    return search.living(point)


def summary(job: Job) -> dict[str, Any]:
    """Diagnostics: the classifier, and the path to it."""
    context, run = job.context, job.run
    sums, info = found_information(context), run.info("model", 0)
    found = read_model(context, "model", 0)
    facts = {
        "n_clusters": found.n_categories,
        "reg": info["reg"],
        "objective": objective(context, sums, found, info["reg"]),
        "cluster_sizes": numbering.spread(context, sums.counts).tolist(),
        "empty_clusters": numbering.labels(context, np.flatnonzero(sums.counts == 0)).tolist(),
        "path": run.infos("point", range(info["points"])),
        "n_init_categories": run.info("start", info["attempt"])["categories"] if info["points"] else 1,
    }
    if context.settings.prior == "power":
        facts["prior_exponent"] = power_exponent(sums.marginal)
    return facts


def model(context: Context) -> Model:
    """Model of a finished fit, for predictions."""
    return Model(context)
