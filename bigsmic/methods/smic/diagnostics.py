"""Diagnostics of a fit by SMIC, collected from its stages."""

from dataclasses import replace
from typing import Any

import numpy as np

from bigsmic.numerics.labeling.rotation import summarise
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.stages import choice, hubs, labelings, noise, numbering, ratings, selection, shown_number
from bigsmic.stages.labeling_specs import eigenproblems, eigenvector_sets_of, specs_of

Scores = dict[int, dict[str, float]]
SCORES = ("lsmi", "gamma", "delta", "cv", "classes_without_center")


def smic_summary(job: Job) -> dict[str, Any]:
    """Collect the diagnostics of the stages of SMIC."""
    context = job.context
    summary: dict[str, Any] = {}
    if context.settings.n_clusters > 1:
        summary |= {
            "neighbors": {} if context.settings.precomputed else job.run.info("recall", 0) | _hubness(context),
            "components": _components(context),
            "eigen": [_spectrum(context, q) for q in range(len(eigenproblems(context.settings)))],
        }
    if context.settings.reads_valleys and job.run.done(shown_number.NUMBER, 0):  # in a cut, it belongs to the base run
        summary |= {"valleys": job.run.info(shown_number.NUMBER, 0)}
    if context.settings.n_clusters > 1 and not context.settings.undecided:
        scores = {} if context.settings.precomputed else _scores(context)
        summary |= {
            "candidates": _candidates(context, scores),
            "eigenvector_sets": _eigenvector_sets(context),
            "output": _output(context),
        }
        summary |= _lsmi(context, scores)
        summary |= {"noise": _noise(context)} if context.settings.finds_noise else {}
    return summary


def _hubness(context: Context) -> dict[str, Any]:
    """Share of rows in no other row's list, and skewness of the in-degree; and whether neighbours were chosen."""
    sums = [info["in_degree"] for info in context.run.infos("graph", context.blocks)]
    n, unlisted, first, second, third = np.sum(sums, axis=0)
    mean = first / n
    variance = second / n - mean**2
    skewness = (third / n - 3 * mean * variance - mean**3) / variance**1.5 if variance > 0 else 0.0
    facts = context.run.info(hubs.HUBS, 0)
    found = {"in_degree_zero": unlisted / n, "in_degree_skewness": skewness}
    return found | {"denser": facts["denser"], "chosen": facts["chosen"]}


def _components(context: Context) -> Any:
    return {str(t): context.run.info("repair", i) for i, t in enumerate(context.settings.t)}


def _spectrum(context: Context, q: int) -> dict[str, Any]:
    read = context.run.reader("spectrum", q)
    eigenproblem = eigenproblems(context.settings)[q]
    figures = {name: np.round(read(name), 9).tolist() for name in ("ritz_values", "residual_norms")}
    return {"kernel": eigenproblem.kernel, "t": eigenproblem.t} | context.run.info("spectrum", q) | figures


def _candidates(context: Context, scores: Scores) -> list[dict[str, Any]]:
    rows = labelings.without_mass(context)
    ari, taken = _median_ari(context), choice.members(context)
    return [
        {
            "kernel": spec.eigenproblem.kernel,
            "assignment": spec.assignment,
            "t": spec.eigenproblem.t,
            "shrinkage": spec.eigenproblem.shrinkage,
            "columns": spec.n_eigenvectors,
            "zero_posterior_share": float(rows[b] / context.n),
            "chosen": b in taken,
        }
        | ari.get(b, {})
        | scores.get(b, {})
        for b, spec in enumerate(specs_of(context))
    ]


def _scores(context: Context) -> Scores:
    """LSMI and parameters of its estimate, by number of the labeling."""
    table = {name: context.run.read("scores", 0, name) for name in SCORES}
    numbers = context.run.info("scores", 0)["numbers"]
    return {b: {name: values[i].item() for name, values in table.items()} for i, b in enumerate(numbers)}


def _lsmi(context: Context, scores: Scores) -> dict[str, Any]:
    """LSMI of the consensus, and the rows that LSMI was estimated from; nothing of a graph."""
    if not scores:
        return {}
    of_consensus = scores.get(selection.CONSENSUS, {})
    found = {"rows": context.run.info("scores", 0)["rows"]}
    return {"lsmi": found | ({"consensus": of_consensus["lsmi"]} if of_consensus else {})}


def _median_ari(context: Context) -> Any:
    """Median ARI of every labeling to the others, if they were compared."""
    if not context.run.done("consensus", 0):
        return {}
    ari = context.run.read("consensus", 0, "ari")
    return {b: {"median_ari": float(np.median(np.delete(ari[b], b))) if len(ari) > 1 else 1.0} for b in range(len(ari))}


def _eigenvector_sets(context: Context) -> Any:
    if not context.run.done("eigenvector_sets", 0):
        return []
    modularity, association = ratings.modularities(context), ratings.associations(context)
    best = choice.chosen_set(context)
    return [
        {
            "columns": sorted({specs_of(context)[b].n_eigenvectors for b in eigenvector_set}),
            "shrinkage": sorted({specs_of(context)[b].eigenproblem.shrinkage for b in eigenvector_set}),
            "modularity": float(modularity[w]),
            "association": float(association[w]),
            "chosen": w == best,
        }
        for w, eigenvector_set in enumerate(eigenvector_sets_of(context))
    ]


def _output(context: Context) -> dict[str, Any]:
    found = summarise(np.sum([sums for (sums,) in context.run.gather("final", context.blocks, ["sums"])], axis=0))
    if context.settings.finds_noise:
        found = replace(found, counts=found.counts - noise.rows_of_clusters(context))
    return {
        "cluster_sizes": numbering.spread(context, found.counts).tolist(),
        "empty_clusters": numbering.labels(context, found.empty).tolist(),
        "label_off_argmax_share": found.share_off_argmax,
    }


def _noise(context: Context) -> dict[str, Any]:
    """Number of rows in no cluster, in all and by the cluster that they would otherwise be in."""
    rows = noise.rows_of_clusters(context)
    return {
        "rows": int(rows.sum()),
        "share": float(rows.sum() / context.n),
        "next_to": numbering.spread(context, rows).tolist(),
    }
