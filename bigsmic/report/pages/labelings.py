"""The labelings from which a result was chosen or formed, and their agreement."""

from functools import partial

from bigsmic import plots
from bigsmic.report.document import WIDTH, Figure, Part, Section, Table
from bigsmic.report.subject import Subject

NAMES = {
    "number": "Labeling",
    "chosen": "Taken", "kernel": "Kernel", "assignment": "Labels by", "t": "t", "shrinkage": "Shrinkage",
    "columns": "Eigenvectors", "median_ari": "Median ARI", "lsmi": "LSMI", "n_violated": "Links not kept",
    "n_held_out": "Held-out links not kept", "criterion": "Criterion", "n_iter": "Iterations", "converged": "Converged",
}  # fmt: skip
"""Properties of a labeling that are shown, with their headings."""


def section(subject: Subject) -> Section | None:
    """The labelings."""
    found = subject.result.diagnostics.get("candidates", [])
    if not found:
        return None
    candidates = [{"number": number} | row for number, row in enumerate(found)]
    ordered = sorted(candidates, key=lambda row: (not row["chosen"], -row.get("lsmi", 0.0)))
    shown = [name for name in NAMES if any(name in row for row in ordered)]
    shown = [name for name in shown if name in ("number", "chosen") or len({str(row.get(name)) for row in ordered}) > 1]
    rows = [[row.get(name) for name in shown] for row in ordered]
    caption = (
        "Labeling: its number in the figure, and in Result.scores. Median ARI: agreement with the other labelings, 1 "
        "for the same, 0 for chance. What is the same of all is left out."
    )
    table = Table([NAMES[name] for name in shown], rows, caption)
    return Section("labelings", "Labelings", [*_figure(subject, len(rows)), table])


def _figure(subject: Subject, n_labelings: int) -> list[Part]:
    """Agreement of the labelings, if there are several."""
    if n_labelings < 2 or subject.result.settings.undecided:
        return []
    caption = (
        "Adjusted Rand index between every two labelings, on a sample of the rows. Those that make up the result come "
        "first, and are framed."
    )
    draw = partial(plots.labelings, subject.result)
    return [Figure(draw, f"Agreement of {n_labelings} labelings, as an image", caption, (WIDTH, 5.4))]
