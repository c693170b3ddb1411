"""Text of a plan: a table of its stages, and totals."""

from typing import Any

from bigsmic.tables import bytes_text, folded, seconds_text, tables

PLACES = {True: "in memory", False: "on disk"}
UNSCALED = "columns divided by their standard deviation, unless the scan finds that they share a unit"


def plan_page(plan: Any) -> list[Any]:
    """Lines and tables of a :class:`~bigsmic.runtime.planning.Plan`."""
    return [
        f"{plan.size.n:,} rows x {plan.size.d} columns",
        *([folded(f"decoded as the archive says: {plan.decoded}")] if plan.decoded else []),
        *([folded(UNSCALED)] if plan.scale == "auto" else []),
        "",
        *tables([_row(stage) for stage in plan.stages.values()]),
        "",
        f"memory  {bytes_text(plan.peak_bytes)} at most, of {bytes_text(plan.memory_limit)} allowed{_each(plan)}",
        f"disk    {bytes_text(plan.disk_bytes)} at most",
        *([f"traffic {bytes_text(plan.traffic_bytes)} between workers at most"] if plan.size.n_workers > 1 else []),
        f"cluster {plan.scheduler_tasks:,} tasks for its scheduler at most",
        *([_eigen(plan)] if "eigen" in plan.stages else []),
        *([folded(_time(plan.duration))] if plan.duration else []),
    ]


def _each(plan: Any) -> str:
    return f", for each of {plan.size.n_workers} workers" if plan.size.n_workers > 1 else ""


def _row(stage: Any) -> dict[str, Any]:
    return {
        "stage": stage.name,
        "tasks": stage.tasks,
        "at once": stage.max_concurrency,
        "memory": bytes_text(stage.peak_bytes),
        "disk": bytes_text(stage.disk_bytes),
        "Gflop": round(stage.flops / 1e9),
    }


def _eigen(plan: Any) -> str:
    held = f" but for {bytes_text(plan.basis_bytes)}" if plan.basis_bytes else ""
    others = "" if plan.vectors_in_memory else ", half of the other vectors on disk"
    return f"eigen   basis {PLACES[plan.basis_in_memory]}{held}, kernel {PLACES[plan.kernel_in_memory]}{others}"


def _time(duration: Any) -> str:
    """From clear clusters to unclear ones, and on which processor."""
    (least, most), cpu = map(seconds_text, duration.seconds), " to ".join(map(seconds_text, duration.cpu_seconds))
    speed = f"a thread of {duration.machine}"
    if duration.factor != 1:
        speed = f"this machine, whose threads take {duration.factor:.2f} times as long as those of {duration.machine}"
    return f"time    {least} if clusters are clear, {most} if they are not; {cpu} of CPU time of {speed}"
