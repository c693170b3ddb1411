"""Report sections about a fit by RIM: the path of strengths, the weights, the least certain rows."""

from typing import Any

from bigsmic.report import WIDTH, Facts, Figure, Paragraph, Part, Section, Table, drawings
from bigsmic.tables import count

UNCERTAIN = 20
"""Number of rows shown."""


def pages(result: Any) -> list[Section]:
    """Sections of a report about RIM."""
    return [*path(result), *_weights(result), _uncertain(result)]


def path(result: Any) -> list[Section]:
    """The strengths of the penalty that were tried, and the categories that stayed alive."""
    points = sorted(result.diagnostics.get("path", []), key=lambda point: point["reg"])
    if not points:
        return []
    facts = result.diagnostics
    taken, began = facts["reg"], facts["n_init_categories"]
    rows = [(point["reg"], point["alive"], point["objective"], point["reg"] == taken) for point in points]
    parts: list[Part] = [
        Paragraph(
            f"The classifier began with {count(began, 'category', 'categories')}; the stronger the penalty reg, the "
            f"fewer stay alive. At reg = {taken:.4g} there are {facts['n_clusters']:,}."
        )
    ]
    if len(points) > 1:
        draw = drawings.curves(
            [point["reg"] for point in points],
            {"alive": [point["alive"] for point in points]},
            ("reg", "categories that stay alive"),
            log=True,
        )
        alt = f"Categories that stay alive at {len(points)} strengths of the penalty"
        parts.append(Figure(draw, alt, "Categories that stay alive, by the strength of the penalty.", (WIDTH, 2.6)))
    caption = "Strengths that were tried. Objective: information less penalty, nats per row. Result.path adds the LSMI."
    parts.append(Table(("reg", "Alive", "Objective", "Taken"), rows, caption))
    return [Section("path", "Path of RIM", parts)]


def _weights(result: Any) -> list[Section]:
    if len(result.numbers) < 2:
        return []
    coef = result.coef
    draw = drawings.weights(coef, ("column", "cluster"))
    height = min(8.0, 1.3 + 0.2 * len(coef))
    shown = min(coef.shape[1], drawings.MOST_COLUMNS)
    caption = "Weights of the classifier on the unscaled columns: red is evidence for the cluster, blue against it."
    if shown < coef.shape[1]:
        caption += f" The {shown} columns with the largest weights of {coef.shape[1]:,}."
    alt = f"Weights of {count(len(result.numbers), 'cluster')} on {count(shown, 'column')}, as an image"
    figure = Figure(draw, alt, caption, (WIDTH, height))
    return [Section("weights", "Weights of RIM", [figure])]


def _uncertain(result: Any) -> Section:
    table = result.uncertain.head(UNCERTAIN)
    rows = [(int(row.row), float(row.entropy), int(row.label), int(row.other)) for row in table.itertuples()]
    caption = "Rows of least certain cluster. Entropy of the posterior, in nats; Other: the next most probable cluster."
    return Section("uncertain", "Least certain rows", [Table(("Row", "Entropy", "Cluster", "Other"), rows, caption)])


def features(result: Any) -> list[Section]:
    """The features that kernel RIM classified in place of the rows."""
    facts, settings = result.diagnostics, result.settings
    length = facts.get("length_scale")
    rows = [
        ("Kernel", str(settings.kernel)),
        ("Approximation", str(settings.approximation)),
        ("Features", f"{facts.get('features', 0):,}"),
        ("Length scale", "" if length is None else f"{length:.4g}, in the units of the scaled rows"),
    ]
    return [Section("features", "Features of the kernel", [Facts([(name, value) for name, value in rows if value])])]
