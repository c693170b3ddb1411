"""The labelings that a result was chosen or formed from, and how they agree."""

from bigsmic.report.document import Section, Table
from bigsmic.report.subject import Subject

NAMES = {
    "chosen": "Taken", "kernel": "Kernel", "assignment": "Labels by", "t": "t", "shrinkage": "Shrinkage",
    "columns": "Eigenvectors", "median_ari": "Median ARI", "lsmi": "LSMI", "n_violated": "Links not kept",
    "n_held_out": "Held-out links not kept", "criterion": "Criterion", "n_iter": "Iterations", "converged": "Converged",
}  # fmt: skip
"""Facts of a labeling that are shown, with their names."""


def section(subject: Subject) -> Section | None:
    """The labelings."""
    candidates = subject.result.diagnostics.get("candidates", [])
    if not candidates:
        return None
    ordered = sorted(candidates, key=lambda row: (not row["chosen"], -row.get("lsmi", 0.0)))
    shown = [name for name in NAMES if any(name in row for row in ordered)]
    shown = [name for name in shown if name == "chosen" or len({str(row.get(name)) for row in ordered}) > 1]
    rows = [[row.get(name) for name in shown] for row in ordered]
    caption = (
        "Median ARI: agreement with the other labelings, 1 for the same, 0 for chance. What is the same of all is left "
        "out."
    )
    return Section("labelings", "Labelings", [Table([NAMES[name] for name in shown], rows, caption)])
