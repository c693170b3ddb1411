"""Output of each command: a JSON-like document, and a page of lines and tables."""

import shlex
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bigsmic.errors import PlanError
from bigsmic.store import absolute, is_local
from bigsmic.tables import bytes_text, count, folded, tables
from bigsmic.types import Integers, StrPath

if TYPE_CHECKING:
    from bigsmic.datasets import TetrodeSimulator
    from bigsmic.tables import Page

LABELS_AT_ONCE = 1 << 20
AGAIN = "For labels, fit again with a number of clusters: bigsmic fit .. -c C --out OTHER_RUN"
"""What to do where a fit left the number of clusters open and has nothing to cut."""


# -- fit


def fit_document(result: Any) -> dict[str, Any]:
    """Location, settings and diagnostics of a fit."""
    document = {
        "run": result.location,
        "n_clusters": result.n_clusters,
        "settings": result.settings.identity(),
        "diagnostics": result.diagnostics,
    }
    if valleys := getattr(result, "valleys", None):
        document["valleys"] = valleys_document(valleys)
    if result.names:
        document["names"] = names_document(result)
    if result.matched:
        document["matched"] = {"sentence": result.matched.sentence, **result.matched.document()}
    return document | ({"numbers": _numbers_of_clusters(result)} if result.settings.undecided else {})


def names_document(result: Any) -> dict[str, str]:
    """Names of clusters, by number: JSON has no keys but texts."""
    return {str(number): name for number, name in result.names.items()}


FACTS_OF_VALLEYS = (
    "sentence",
    "n_clusters",
    "clear",
    "best",
    "threshold",
    "votes",
    "agreement",
    "parts",
    "surer",
    "on_pieces",
    "one_curve",
    "dense_parts",
    "trimmed",
    "graph_parts",
    "unlinked",
    "forced",
)


def valleys_document(valleys: Any) -> dict[str, Any]:
    """Evidence in the data for the number of clusters."""
    facts = {name: getattr(valleys, name) for name in FACTS_OF_VALLEYS}
    return facts | {name: getattr(valleys, name).to_dict("records") for name in ("curve", "pairs")}


def fit_page(result: Any, labelings: bool = False) -> "Page":
    """Text of ``repr``, and the next commands; if the number of clusters is open, the evidence for it.

    Parameters
    ----------
    result : Result
    labelings : bool
        Add a table of the labelings that were compared: the chosen ones, then the others by LSMI.
    """
    evidence = _numbers_of_clusters(result) if result.settings.undecided else []
    numbers = [*tables(evidence), ""] if evidence else []
    lines = repr(result).splitlines()
    lines = [line if line.endswith(result.location) else folded(line) for line in lines]  # a path may have spaces
    return [*lines, "", *numbers, *_labelings(result, labelings), *_next_steps(result)]


def _labelings(result: Any, shown: bool) -> "Page":
    """A table of the labelings, or how to show it; empty if none were compared."""
    candidates = [dict(row) for row in result.diagnostics.get("candidates", [])]
    if not candidates:
        return []
    if not shown:
        return [f"{len(candidates)} labelings were compared: --labelings shows them."]
    candidates = [{"": row.pop("chosen")} | row for row in candidates]
    candidates.sort(key=lambda row: (not row[""], -row.get("lsmi", 0.0)))
    return [*tables(candidates), ""]


def _next_steps(result: Any) -> list[str]:
    """Commands that get labels from a fit that left the number of clusters open, or tables from one with labels."""
    run = shlex.quote(result.location)
    cut = [f"  bigsmic cut {run} -c {_hinted(result)} --out OTHER_RUN"] if hasattr(result, "cut") else []
    if result.settings.undecided:
        return ["For labels, without another fit:", *cut] if result._can_be_cut else [AGAIN]
    steps = ["Next:", f"  bigsmic report {run} -o report.html", f"  bigsmic export {run} labels.csv"]
    return steps if result.settings.number_given else [*steps, *cut]


def _hinted(result: Any) -> int | str:
    """The number of clusters to try first, if the fit hints at one."""
    valleys = getattr(result, "valleys", None) if result.settings.undecided else None
    return valleys.best if valleys and valleys.best > 1 else "C"


def _numbers_of_clusters(result: Any) -> list[dict[str, Any]]:
    """Evidence for every number of clusters that a fit leaves open, as dicts."""
    if hasattr(type(result), "curve"):
        return result.curve.reset_index().to_dict("records")
    if valleys := getattr(result, "valleys", None):
        return valleys.curve.to_dict("records")
    return result.stability.to_frame().reset_index().to_dict("records") if result._can_be_cut else []


# -- predict


def predict_document(labels: Integers, result: Any, out: StrPath) -> dict[str, Any]:
    """Rows, sizes of the clusters and, if the fit looks for them, rows in none; the labels are read in blocks."""
    n, sizes = labels.shape[0], np.zeros(1 + result.n_clusters, np.int64)
    for lo in range(0, n, LABELS_AT_ONCE):
        sizes += np.bincount(1 + labels[lo : lo + LABELS_AT_ONCE], minlength=len(sizes))
    none = {"noise": int(sizes[0])} if result.settings.finds_noise or sizes[0] else {}
    return {"out": out, "rows": n, "cluster_sizes": sizes[1:].tolist()} | none


def predict_page(document: dict[str, Any]) -> "Page":
    """The clusters of the new rows."""
    n = document["rows"]
    rows = [{"cluster": k, "rows": size, "share": percent(size, n)} for k, size in enumerate(document["cluster_sizes"])]
    if "noise" in document:
        rows.append({"cluster": "none", "rows": document["noise"], "share": percent(document["noise"], n)})
    return [*tables(rows), "", f"{n:,} rows labelled; their labels and posterior are in {document['out']}"]


# -- plan


def plan_document(plan: Any) -> dict[str, Any]:
    """Every figure of a plan except the sizes of blocks, which are no option of the command line."""
    stages = {
        name: asdict(stage) | {"peak_bytes": stage.peak_bytes, "scheduler_tasks": stage.scheduler_tasks}
        for name, stage in plan.stages.items()
    }
    totals = {name: getattr(plan, name) for name in ("peak_bytes", "disk_bytes", "traffic_bytes", "scheduler_tasks")}
    found = asdict(plan) | {"stages": stages} | totals
    del found["size"]["block_sizes"]
    return found


def refuse_full_disk(plan: Any, out: StrPath | None) -> None:
    """Raise PlanError if the disk of the run directory `out` is too full; URLs are not checked."""
    if out is None or not is_local(absolute(out)):
        return
    path = Path(absolute(out))
    there = next(folder for folder in (path, *path.parents) if folder.exists())
    free = shutil.disk_usage(there).free
    if plan.disk_bytes > free:
        raise PlanError(
            f"plan: the run directory takes up to {bytes_text(plan.disk_bytes)}, and {there} has {bytes_text(free)} "
            "left; free some, or give an out= on another disk"
        )


# -- demo


def demo_opening(simulator: "TetrodeSimulator", folder: StrPath) -> list[str]:
    """Description of the simulated spikes."""
    n, d = simulator.shape
    return [
        folded(
            f"{n:,} spikes of {count(simulator.n_units, 'simulated neuron')}, recorded by the {simulator.n_channels} "
            f"wires of a tetrode for {simulator.n_samples} samples each: {n:,} rows x {d} columns in "
            f"{folder}/archive.zarr, to be clustered without their true labels."
        ),
        "",
    ]


def demo_page(document: dict[str, Any], kept: bool) -> "Page":
    """Comparison of the clusters with the true neurons."""
    folder, c = document["folder"], document["fit"]["n_clusters"]
    clusters = [
        {
            "cluster": row["cluster"],
            "spikes": row["spikes"],
            "neuron": row["unit"],
            "purity": percent(row["purity"]),
            "completeness": percent(row["completeness"]),
        }
        for row in document["clusters"]
    ]
    missed = ", ".join(map(str, document["missed_units"]))
    page = [
        "",
        folded(
            f"{count(len(clusters), 'cluster')} found in {document['seconds']:.1f} s with "
            f"{bytes_text(document['peak_bytes'])} of memory at most. Compared with the true neurons:"
        ),
        "",
        *tables(clusters),
        "",
        folded(
            "neuron: the source of most spikes of the cluster; purity: its share of the cluster; completeness: the "
            "share of its spikes that are in the cluster."
        ),
        *([folded(f"Neurons without a cluster of their own: {missed}.")] if missed else []),
        "",
        f"Adjusted Rand index {document['ari']:.3f}: 1 is perfect, 0 is chance.",
        *([folded(document["fit"]["valleys"]["sentence"])] if "valleys" in document["fit"] else []),
        "",
    ]
    if not kept:
        return [*page, "Archive and run were temporary; give --out DIR to keep them."]
    return [
        *page,
        "Archive and run are kept. The same fit by hand, and its result in Python:",
        f"  bigsmic fit {folder}/archive.zarr --component X -c {c} --out {folder}/run.zarr",
        f'  bigsmic.Result.open("{folder}/run.zarr")',
    ]


# -- formats


def percent(part: float, whole: int = 1) -> str:
    """`part` as a percentage of `whole`, such as ``"12.3 %"``."""
    return f"{100 * part / max(whole, 1):.1f} %"
