"""What each command tells: a JSON-like document, and a page of lines and tables for people."""

import math
import shutil
from dataclasses import asdict
from pathlib import Path

import numpy as np
from rich.table import Table

from bigsmic.errors import PlanError
from bigsmic.store import absolute, is_local

LABELS_AT_ONCE = 1 << 20
UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


# -- fit


def fit_document(result):
    """Where the run is, what was asked, how it went."""
    document = {
        "run": result.location,
        "n_clusters": None if result.settings.undecided else result.n_clusters,
        "settings": result.settings.identity(),
        "diagnostics": result.diagnostics,
    }
    if valleys := getattr(result, "valleys", None):
        document["valleys"] = valleys_document(valleys)
    return document | ({"numbers": _numbers_of_clusters(result)} if result.settings.undecided else {})


def valleys_document(valleys):
    """What the data show of the number of clusters."""
    facts = {name: getattr(valleys, name) for name in ("sentence", "n_clusters", "clear", "best", "votes")}
    return facts | {name: getattr(valleys, name).to_dict("records") for name in ("curve", "pairs")}


def fit_page(result):
    """The result, and the candidates: the chosen one, then by LSMI; of an open number of clusters, what hints at it."""
    if result.settings.undecided:
        return [repr(result), "", table(_numbers_of_clusters(result)), "", *_next_steps(result)]
    candidates = [dict(row) for row in result.diagnostics.get("candidates", [])]
    candidates = [{"": row.pop("chosen")} | row for row in candidates]
    if not candidates:
        return [repr(result)]
    candidates.sort(key=lambda row: (not row[""], -row.get("lsmi", 0.0)))
    return [repr(result), "", table(candidates)]


def _next_steps(result):
    """How to get labels from a fit that left the number of clusters open."""
    valleys = getattr(result, "valleys", None)
    c = valleys.best if valleys and valleys.best > 1 else "C"
    return ["For labels, without another fit:", f"  bigsmic cut {result.location} -c {c} --out OTHER_RUN"]


def _numbers_of_clusters(result):
    """What a fit says of every number of clusters that it leaves open, as dicts."""
    if valleys := getattr(result, "valleys", None):
        return valleys.curve.to_dict("records")
    found = result.curve if hasattr(result, "curve") else result.stability.to_frame()
    return found.reset_index().to_dict("records")


# -- predict


def predict_document(labels, result, out):
    """Rows, sizes of the clusters and, where the fit looks for them, rows in none; the labels are read in blocks."""
    n, sizes = labels.shape[0], np.zeros(1 + result.n_clusters, np.int64)
    for lo in range(0, n, LABELS_AT_ONCE):
        sizes += np.bincount(1 + labels[lo : lo + LABELS_AT_ONCE], minlength=len(sizes))
    noise = {"noise": int(sizes[0])} if result.settings.finds_noise else {}
    return {"out": out, "rows": n, "cluster_sizes": sizes[1:].tolist()} | noise


def predict_page(document):
    """The clusters of the new rows."""
    n = document["rows"]
    rows = [{"cluster": k, "rows": size, "share": percent(size, n)} for k, size in enumerate(document["cluster_sizes"])]
    if "noise" in document:
        rows.append({"cluster": "none", "rows": document["noise"], "share": percent(document["noise"], n)})
    return [table(rows), "", f"{n:,} rows labelled; their labels and posterior are in {document['out']}"]


# -- plan


def plan_document(plan):
    """Every figure of a plan, but for the sizes of blocks, which are no option here."""
    stages = {
        name: asdict(stage) | {"peak_bytes": stage.peak_bytes, "scheduler_tasks": stage.scheduler_tasks}
        for name, stage in plan.stages.items()
    }
    totals = {name: getattr(plan, name) for name in ("peak_bytes", "disk_bytes", "scheduler_tasks")}
    found = asdict(plan) | {"stages": stages} | totals
    del found["size"]["block_sizes"]
    return found


def plan_page(plan):
    """A table of the stages, and the sums."""
    stages = [
        {
            "stage": stage.name,
            "tasks": stage.tasks,
            "at once": stage.max_concurrency,
            "memory": bytes_text(stage.peak_bytes),
            "disk": bytes_text(stage.disk_bytes),
            "Gflop": round(stage.flops / 1e9),
        }
        for stage in plan.stages.values()
    ]
    places = {True: "in memory", False: "on disk"}
    eigen = f"eigen   basis {places[plan.basis_in_memory]}, kernel {places[plan.kernel_in_memory]}"
    return [
        f"{plan.size.n:,} rows x {plan.size.d} columns",
        *([f"decoded as the archive says: {plan.decoded}"] if plan.decoded else []),
        *(
            ["columns divided by their standard deviation, unless the scan finds that they share a unit"]
            if plan.scale == "auto"
            else []
        ),
        "",
        table(stages),
        "",
        f"memory  {bytes_text(plan.peak_bytes)} at most, of {bytes_text(plan.memory_limit)} allowed",
        f"disk    {bytes_text(plan.disk_bytes)} at most",
        f"cluster {plan.scheduler_tasks:,} tasks for its scheduler at most",
        *([eigen] if "eigen" in plan.stages else []),
    ]


def refuse_full_disk(plan, out):
    """Raise PlanError if the disk under the run directory `out` is too full; URLs are not looked at."""
    if out is None or not is_local(absolute(out)):
        return
    path = Path(absolute(out))
    there = next(folder for folder in (path, *path.parents) if folder.exists())
    free = shutil.disk_usage(there).free
    if plan.disk_bytes > free:
        raise PlanError(
            f"plan: the run directory takes up to {bytes_text(plan.disk_bytes)}, {there} has {bytes_text(free)} left; "
            "free some, or give an out= on another disk"
        )


# -- demo


def demo_opening(simulator, folder):
    """What is to be clustered."""
    n, d = simulator.shape
    return [
        f"{n:,} spikes of {simulator.n_units} simulated neurons, seen by the {simulator.n_channels} wires of a tetrode "
        f"for {simulator.n_samples} samples each:",
        f"{n:,} rows x {d} columns in {folder}/archive.zarr, to be clustered without their true labels.",
        "",
    ]


def demo_page(document, kept):
    """What was found, against the truth."""
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
        f"{len(clusters)} clusters found in {document['seconds']:.1f} s with {bytes_text(document['peak_bytes'])} of "
        "memory at most. Against the true neurons:",
        "",
        table(clusters),
        "",
        "neuron: the one that most spikes of the cluster are of; purity: its share of the cluster;",
        "completeness: the share of its spikes that are in the cluster.",
        *([f"Neurons without a cluster of their own: {missed}."] if missed else []),
        "",
        f"Adjusted Rand index {document['ari']:.3f}: 1 is the truth, 0 is chance.",
        *([document["fit"]["valleys"]["sentence"]] if "valleys" in document["fit"] else []),
        "",
    ]
    if not kept:
        return [*page, "Archive and run were temporary; --out DIR keeps them."]
    return [
        *page,
        "Archive and run are kept. The same fit by hand, and its result in Python:",
        f"  bigsmic fit {folder}/archive.zarr --component X -c {c} --out {folder}/run.zarr",
        f'  bigsmic.Result.open("{folder}/run.zarr")',
    ]


# -- formats


def table(records):
    """Table of dicts with equal keys, one row each."""
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for name, value in records[0].items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        shown.add_column(name.replace("_", " "), justify="right" if number or str(value)[:1].isdigit() else "left")
    for record in records:
        shown.add_row(*map(_cell, record.values()))
    return shown


def _cell(value):
    if isinstance(value, bool):
        return "✓" if value else ""
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def bytes_text(size):
    """Bytes as people write them, ``"1.5 GiB"``."""
    power = min(int(math.log2(max(size, 1)) // 10), len(UNITS) - 1)
    return f"{size / 1024**power:.{max(power - 2, 0)}f} {UNITS[power]}"


def percent(part, whole=1):
    """Share of `part`, ``"12.3 %"``."""
    return f"{100 * part / max(whole, 1):.1f} %"
