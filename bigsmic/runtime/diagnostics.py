"""Diagnostics of a fit: facts about its stages that are stored with the run."""

from collections.abc import Mapping
from typing import Any

from bigsmic.runtime.job import Job


def diagnose(job: Job, cuts: Mapping[str, str], found: dict[str, Any]) -> None:
    """Store the diagnostics of a fit: its shape, the costs of its stages, and what its method found."""
    context, run = job.context, job.run
    before = (run.attribute("summary") or {}).get("stages", {})
    summary = {
        "rows": context.n,
        "columns": context.d,
        "cut_to_n": cuts,
        "stages": before | {name: _later(before.get(name), cost) for name, cost in job.costs.items()},
    }
    if not context.settings.precomputed:
        summary["constant_columns"] = context.scaler.constant.tolist()[:1000]
    run.update({"summary": summary | found})


def _later(before: dict[str, float] | None, cost: dict[str, float]) -> dict[str, float]:
    """Costs of a stage summed over the calls that resumed it."""
    if before is None:
        return cost
    return {
        "wall": before["wall"] + cost["wall"],
        "cpu": before["cpu"] + cost["cpu"],
        "peak_bytes": max(before["peak_bytes"], cost["peak_bytes"]),
    }
