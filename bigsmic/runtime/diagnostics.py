"""What a fit tells about itself: collected from the stages, stored with the run, printed."""


def diagnose(job, cuts, found):
    """Store with the run how the fit went, and what its method found."""
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


def _later(before, cost):
    """Costs of a stage over the runs that it took; one that found nothing to do leaves them as they were."""
    if before is None:
        return cost
    return {
        "wall": before["wall"] + cost["wall"],
        "cpu": before["cpu"] + cost["cpu"],
        "peak_bytes": max(before["peak_bytes"], cost["peak_bytes"]),
    }
