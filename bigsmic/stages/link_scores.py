"""kept: the links that each labeling violates, and the labelings selected for violating few."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigsmic.numerics.constraints.links import Links, criterion, violations
from bigsmic.numerics.constraints.propagation import free_neighbours, predicted
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.stages import kernel_matrix, links
from bigsmic.stages.labeling_specs import numbers_of, specs_of, widest
from bigsmic.stages.labelings import read_labels
from bigsmic.types import Floats, Integers

N_TAKEN = 5  # labelings whose consensus is the result


def run(job: Job) -> None:
    """Score every labeling by the links that it violates, and by those that predictions from its neighbours violate."""
    kernel_matrix.prepare(job, widest(job.context))
    job.run_steps("kept", [0], _rate)


def _rate(job: Job, block: int) -> None:
    context = job.context
    given = links.given(context)
    n_violated = _count(context, given, of_linked_rows(job, "kept", _labels))
    if context.settings.selection == "consensus":
        predicted = of_linked_rows(job, "kept", _predicted)
        known = (predicted >= 0).all(axis=0)
        n_held_out = _count(context, given.among(known), predicted[:, known])
    else:
        n_held_out = np.zeros_like(n_violated)
    score = _scores(context, n_violated, n_held_out)
    arrays = {"n_violated": n_violated, "n_held_out": n_held_out, "criterion": score}
    arrays["taken"] = np.sort(np.argsort(-score, kind="stable")[:N_TAKEN])
    context.run.write("kept", block, arrays, info={"n_links": given.n_links})


def _count(context: Context, of_links: Links, labels: Integers) -> Integers:
    """Number of the links that each labeling violates: int64, shape (B,), of `labels` (B, T)."""
    n_clusters = context.settings.n_clusters
    return np.array([violations(of_links, of_one, n_clusters).n_violated for of_one in labels])


def of_linked_rows(job: Job, stage: str, task: Callable[..., Any]) -> Integers:
    """Labels of the linked rows in input order, shape (B, T); `task` finds those of one block."""
    labels = np.concatenate(job.map_blocks(stage, job.context.blocks, task), axis=1)
    order = np.argsort(job.run.read("links", links.PLACED, "positions"), kind="stable")
    in_input_order = np.empty_like(labels)
    in_input_order[:, order] = labels
    return in_input_order


def is_linked(context: Context, p: int) -> NDArray[np.bool_]:
    """Whether each row of one block has links."""
    return np.isin(context.run.read("rows", p, "rows"), context.run.read("links", links.GIVEN, "rows"))


def _labels(context: Context, p: int) -> Integers:
    """Labels of the linked rows of one block under every labeling, int32, shape (B, l)."""
    linked = is_linked(context, p)
    return np.stack([read_labels(context, p, b)[linked] for b in range(len(specs_of(context)))])


def _predicted(context: Context, p: int) -> Integers:
    """Labels of the linked rows of one block, predicted by their neighbours without links, shape (B, l)."""
    block = kernel_matrix.read_block(context, kernel_matrix.weights_name(widest(context)), p)
    weights, positions = free_neighbours(block, links.placed(context))
    found = []
    for b in range(len(specs_of(context))):
        labels = context.at(f"labels {b}", partial(read_labels, context, b=b), positions)
        found.append(predicted(weights, labels, context.settings.n_clusters))
    return np.stack(found)


def _scores(context: Context, n_violated: Integers, n_held_out: Integers) -> Floats:
    """Criterion of every labeling, compared with those of the same number of clusters."""
    lsmi, score = context.run.read("scores", 0, "lsmi"), np.empty(len(n_violated))
    for same in numbers_of(context):
        score[same] = criterion(lsmi[same], n_violated[same], context.settings.link_weight, n_held_out[same])
    return score


def chosen(context: Context) -> int:
    """Number of the labeling of largest criterion, the first among equals."""
    return int(np.argmax(context.run.read("kept", 0, "criterion")))
