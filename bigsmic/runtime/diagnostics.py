"""Diagnostics of a fit, which are stored with the run."""

from collections.abc import Iterable, Mapping
from typing import Any

from bigsmic.runtime.job import Job
from bigsmic.version import versions

MOST_CONSTANT = 1000
"""Largest number of constant columns that are listed."""


def diagnose(job: Job, cuts: Mapping[str, str], found: dict[str, Any], kept: Iterable[str]) -> None:
    """Store the diagnostics of a fit: its shape, the costs of its stages, and what its method found.

    The names of the stages that it keeps are stored beside them, so that readers notice if one is lost.
    """
    context, run = job.context, job.run
    before = (run.attribute("summary") or {}).get("stages", {})
    summary = {
        "rows": context.n,
        "columns": context.d,
        "cut_to_n": cuts,
        "versions": versions(),
        "stages": before | {name: _later(before.get(name), cost) for name, cost in job.costs.items()},
    }
    if not context.settings.precomputed:
        summary["constant_columns"] = context.scaler.constant.tolist()[:MOST_CONSTANT]
        summary["scaling"] = {"scale": context.scale} | context.scaling
    run.update({"summary": summary | found, "kept": {"stages": list(kept)}})


def scaling_text(diagnostics: Mapping[str, Any]) -> str:
    """The chosen scaling of columns, as one sentence; empty if the caller gave the scaling."""
    found = diagnostics.get("scaling", {})
    if "neighbors" not in found:
        return ""
    if found.get("mixed_units"):
        return "columns divided by their standard deviation: features of windows are in different units"
    alike = f"likeness of neighbours {found['neighbors']:.2f}, of any two {found['all_pairs']:.2f}"
    if found["scale"] is not None:
        return f"columns divided by their standard deviation{own_spreads(found)}: they show no shared unit ({alike})"
    seen = {"neighbors": alike, "order": "they are in order of spread, like principal components"}
    return f"not divided: columns share a unit ({seen.get(found['sign']) or _widest(found)})"


def _widest(found: Mapping[str, Any]) -> str:
    """What is said of spreads that differ by less than those in several units."""
    return f"the widest is {1 / found['narrowest']:.1f} times as wide as the narrowest"


def own_spreads(found: Mapping[str, Any]) -> str:
    """What is said of columns that are not divided by their standard deviations."""
    if found["scale"] != "mixed":
        return ""
    said = {
        "majority": "in which one value prevails by the distance of the others from it",
        "extremes": "in which a few rows have most of the variance by that of the others",
    }
    return "".join(f", {found[name]} {text}" for name, text in said.items() if found.get(name))


def _later(before: dict[str, float] | None, cost: dict[str, float]) -> dict[str, float]:
    """Costs of a stage summed over the calls that resumed it."""
    if before is None:
        return cost
    return {
        "wall": before["wall"] + cost["wall"],
        "cpu": before["cpu"] + cost["cpu"],
        "peak_bytes": max(before["peak_bytes"], cost["peak_bytes"]),
    }
