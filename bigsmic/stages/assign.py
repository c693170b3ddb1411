"""assign: for every candidate, the signs or the rotation of its basis, and the labels that they give."""

import numpy as np

from bigsmic import kernel, moments, smic
from bigsmic.candidates import candidates, problems
from bigsmic.context import Context, Job
from bigsmic.information import draw_rows
from bigsmic.stages.graph import read_graph

ROTATION_ROWS = 1000  # rows on which a rotation is found


def run(job: Job):
    """Label every row under every candidate."""
    context = job.context
    job.fill("readings", range(len(problems(context.settings))), lambda c, q: _reading(job, q))
    job.fill("assigned", context.blocks, _label)
    job.fill("adopted", range(len(candidates(context.settings))), lambda c, i: _adopt(job, i))


def _reading(job: Job, q: int):
    """Signs, masses and rotation of one basis."""
    context = job.context
    problem = problems(context.settings)[q]
    sums = job.sum("readings", context.blocks, lambda c, p: smic.column_sums(read_basis(c, problem, p)))
    signs, positive_sums = smic.orient(sums)
    rows = draw_rows(context.n, ROTATION_ROWS, context.settings.seed, "rotation")

    def sample(c, p):
        return read_basis(c, problem, p)[np.isin(c.run.read("rows", p, "rows"), rows)]

    R = smic.rotation(np.concatenate(job.collect("readings", context.blocks, sample)))
    context.run.write("readings", q, {"signs": signs, "positive_sums": positive_sums, "R": R})


def read_basis(context: Context, problem, p: int):
    """Eigenvectors of one problem at one block of rows, float32, shape (b, m)."""
    return context.run.read(f"basis.{problem.name}", p, "V")


def read_assignment(context: Context, candidate, V):
    """Posteriors and labels that a candidate gives to rows of its basis."""
    q = problems(context.settings).index(candidate.problem)
    read = context.run.reader("readings", q)
    if candidate.rotation:
        return smic.posterior_rotated(V, read("R"))
    return smic.posterior_paper(V, read("signs"), read("positive_sums"), context.settings.prior)


def _label(context: Context, p: int):
    """Labels under every candidate, -1 where no eigenvector has mass."""
    labels = []
    for candidate in candidates(context.settings):
        found = read_assignment(context, candidate, read_basis(context, candidate.problem, p))
        labels.append(np.where(found.has_mass, found.labels, -1).astype(np.int32))
    labels = np.stack(labels)
    info = {"without_mass": (labels < 0).sum(axis=1).tolist()}
    context.run.write("assigned", p, {"labels": labels}, parts={"labels": np.arange(len(labels) + 1)}, info=info)


def without_mass(context: Context):
    """Rows in which no eigenvector has mass, per candidate."""
    return np.sum([context.run.info("assigned", p)["without_mass"] for p in context.blocks], axis=0)


def read_labels(context: Context, p: int, i: int):
    """Labels of one block under candidate `i`, every row labelled, int32, shape (b,)."""
    labels = context.run.read("assigned", p, "labels", i)[0]
    if not (labels < 0).any():
        return labels
    labels, read = labels.copy(), context.run.reader("adopted", i)
    labels[read("positions", p) - context.layout.bounds[p]] = read("labels", p)
    return labels


def _adopt(job: Job, i: int):
    """Label the rows without mass: by their nearest labelled neighbour, again and again, then by the nearest mean."""
    context = job.context
    bounds = context.layout.bounds
    own = [context.run.read("assigned", p, "labels", i)[0] for p in context.blocks if without_mass(context)[i]]
    labels = np.concatenate(own) if own else np.zeros(0, np.int32)
    missing = np.flatnonzero(labels < 0)
    before = len(missing) + 1
    while 0 < np.count_nonzero(labels[missing] < 0) < before:
        before = np.count_nonzero(labels[missing] < 0)
        labels = np.concatenate(job.collect("adopted", context.blocks, lambda c, p, old=labels: _spread(c, p, old)))
    if len(missing) and (labels[missing] < 0).any():
        labels = _nearest_means(job, labels)
    parts = dict.fromkeys(("positions", "labels"), np.searchsorted(missing, bounds))
    context.run.write("adopted", i, {"positions": missing, "labels": labels[missing]}, parts=parts)


def _spread(context: Context, p: int, labels):
    own = labels[context.layout.bounds[p] : context.layout.bounds[p + 1]]
    if (own >= 0).all():
        return own
    graph = read_graph(context, p)
    return kernel.nearest_labelled(graph, np.concatenate([own, labels[graph.halo]]))


def _nearest_means(job: Job, labels):
    """Label what no path of neighbours reaches by the nearest of the clusters' means."""
    c, bounds = job.context.settings.n_clusters, job.context.layout.bounds

    def sums(context, p):
        own, X = labels[bounds[p] : bounds[p + 1]], context.run.read("rows", p, "X")
        return moments.class_sums(X, own, c)

    total = job.sum("adopted", job.context.blocks, sums)

    def nearest(context, p):
        own = labels[bounds[p] : bounds[p + 1]].copy()
        missing = own < 0
        if missing.any():
            own[missing] = moments.nearest_mean(context.run.read("rows", p, "X")[missing], total)
        return own

    return np.concatenate(job.collect("adopted", job.context.blocks, nearest))
