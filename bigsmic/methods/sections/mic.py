"""Report sections about a fit by MIC: the neighbour numbers that were tried, and the chosen one."""

from typing import Any

from bigsmic.report import Finding, Section, Table
from bigsmic.report.words import listed


def pages(result: Any) -> list[Section | Finding]:
    """Findings about the ascents, and their section."""
    ascents = result.diagnostics.get("ascents", [])
    if not ascents:
        return []
    slow = [f"t = {row['t']}" for row in ascents if not row["converged"]]
    found: list[Section | Finding] = []
    if slow:
        text = f"The ascent still gained when it was stopped: {listed(slow)}."
        found.append(Finding("warning", text, "Raise max_iter, or tol."))
    rows = [(row["t"], row["mlmi"], row["value"], row["n_iter"], row["converged"], row["chosen"]) for row in ascents]
    caption = (
        "Neighbour numbers t. MLMI: maximum-likelihood mutual information of rows and labels, the largest of which is "
        "taken. Objective: nats per row."
    )
    columns = ("t", "MLMI", "Objective", "Iterations", "Converged", "Taken")
    return [*found, Section("ascents", "Neighbour numbers of MIC", [Table(columns, rows, caption)])]
