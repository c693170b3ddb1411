"""kept: which links every labeling keeps, and which labeling is chosen for it."""

import numpy as np

from bigsmic.context import Context, Job
from bigsmic.links import criterion, violations
from bigsmic.stages import links
from bigsmic.stages.assign import read_labels

LISTS = ("must", "cannot", "strays")


def run(job: Job):
    """Count the links that every labeling violates, rate the labelings, and list what the chosen ones violate."""
    job.steps("kept", [0], _count)


def _count(job: Job, block: int):
    context = job.context
    labels = np.concatenate(job.collect("kept", context.blocks, _labels), axis=1)
    order = np.argsort(context.run.read("links", links.PLACED, "positions"), kind="stable")
    in_input_order = np.empty_like(labels)
    in_input_order[:, order] = labels
    given = links.given(context)
    found = [violations(given, of_one, context.settings.n_clusters) for of_one in in_input_order]
    n_violated = np.array([one.n_violated for one in found])
    score = _scores(context, n_violated)
    best = int(np.argmax(score))
    arrays = {"n_violated": n_violated, "criterion": score} | {name: getattr(found[best], name) for name in LISTS}
    context.run.write("kept", block, arrays, info={"n_links": given.n_links})


def _labels(context: Context, p: int):
    """Labels of the linked rows of one block under every labeling, int32, shape (B, t)."""
    rows = context.run.read("rows", p, "rows")
    linked = np.isin(rows, context.run.read("links", links.GIVEN, "rows"))
    return np.stack([read_labels(context, p, b)[linked] for b in range(len(context.readings))])


def _scores(context: Context, n_violated):
    """Criterion of every labeling among those of as many clusters."""
    lsmi, score = context.run.read("scores", 0, "lsmi"), np.empty(len(n_violated))
    for same in numbers_of(context):
        score[same] = criterion(lsmi[same], n_violated[same], context.settings.link_weight)
    return score


def numbers_of(context: Context):
    """Labelings by their number of clusters: one array of their numbers for each of those the fit was given."""
    if not context.settings.undecided:
        return [np.arange(len(context.readings))]
    widths = np.array([reading.width for reading in context.readings])
    return [np.flatnonzero(widths == width) for width in np.unique(widths)]


def chosen(context: Context):
    """Number of the labeling that the fit returns, the first among equals."""
    return int(np.argmax(context.run.read("kept", 0, "criterion")))
