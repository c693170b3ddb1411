"""Number of clusters: the evidence for every number."""

from functools import partial
from typing import Any

from bigsmic import plots
from bigsmic.report.document import WIDTH, Command, Figure, Paragraph, Part, Section, Table
from bigsmic.report.subject import Subject

MEANINGS = {
    "weakest_z": "weakest valley: how deep the valley between the two clusters is that are separated least, in "
    "standard errors; {threshold:.2g} and more separate them, ∞ where no two touch",
    "stability": "stability: mean adjusted Rand index between labelings of that many clusters",
    "modularity": "modularity of the clusters on the neighbour graph",
    "mean_ari": "agreement: mean adjusted Rand index between labelings cut at that number",
    "lsmi": "LSMI: squared-loss mutual information of rows and labels",
    "n_violated": "links that are not kept",
}
NAMES = {"n_clusters": "Clusters", "weakest_z": "Weakest valley", "mean_ari": "Agreement", "lsmi": "LSMI",
         "lsmi_of_limit": "LSMI of its limit", "n_violated": "Links not kept", "n_held_out": "Held-out links not kept",
         "kernel": "Kernel", "t": "t"}  # fmt: skip


def section(subject: Subject) -> Section | None:
    """How many clusters."""
    records = _records(subject.result)
    parts: list[Part] = []
    if subject.valleys is not None:
        parts.append(Paragraph(subject.valleys.sentence))
    if records:
        parts.append(_figure(subject))
        shown = [name for name in records[0] if any(record[name] is not None for record in records)]
        columns = [NAMES.get(name, name.replace("_", " ").capitalize()) for name in shown]
        rows = [[record[name] for name in shown] for record in records]
        said = [MEANINGS[name].format(threshold=subject.threshold) for name in shown if name in MEANINGS]
        parts.append(Table(columns, rows, "".join(f"{text[0].upper()}{text[1:]}. " for text in said)))
    if subject.result.settings.undecided and subject.result._can_be_cut:
        parts += [Paragraph("For labels, without another fit:"), Command(subject.cut_command())]
    return Section("number", "How many clusters", parts) if parts else None


def _figure(subject: Subject) -> Figure:
    caption = (
        "What the fit says of every number of clusters; a grey band marks the number of this result, or the one to "
        "look at first."
    )
    return Figure(partial(plots.curve, subject.result), "Curve over the number of clusters", caption, (WIDTH, 3.2))


def _records(result: Any) -> list[dict[str, Any]]:
    """Evidence for every number of clusters, as dicts of plain values."""
    if result.settings.undecided and hasattr(type(result), "curve"):
        table = result.curve.reset_index()
    elif (valleys := getattr(result, "valleys", None)) is not None:
        table = valleys.curve
    elif result.settings.undecided and result._can_be_cut:
        table = result.stability.to_frame().reset_index()
    else:
        return []
    found: list[dict[str, Any]] = table.to_dict("records")
    return found
