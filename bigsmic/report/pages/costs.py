"""Seconds and memory of every stage."""

from bigsmic.report.document import Section, Table
from bigsmic.report.subject import Subject
from bigsmic.tables import bytes_text

COLUMNS = ("Stage", "Seconds", "CPU seconds", "Share of CPU, %", "Peak memory")


def section(subject: Subject) -> Section | None:
    """Seconds and memory."""
    stages = subject.result.diagnostics.get("stages", {})
    if not stages:
        return None
    total = sum(stage["cpu"] for stage in stages.values()) or 1.0
    rows = [(name, *_cells(cost, total)) for name, cost in stages.items()]
    caption = (
        "Seconds are summed over all calls that took part. Peak memory is that of the whole process, or of all "
        "workers, up to the end of the stage."
    )
    return Section("costs", "Seconds and memory", [Table(COLUMNS, rows, caption)])


def _cells(cost: dict[str, float], total: float) -> tuple[float, float, float, str]:
    wall, cpu = round(cost["wall"], 2), round(cost["cpu"], 2)
    return wall, cpu, round(100 * cost["cpu"] / total, 1), bytes_text(cost["peak_bytes"])
