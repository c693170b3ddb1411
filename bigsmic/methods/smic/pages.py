"""Report sections about a fit by SMIC: the eigenvalues, and the valleys between clusters."""

from typing import Any

from bigsmic.report import WIDTH, Figure, Part, Section, Table, drawings
from bigsmic.tables import count

MOST_PAIRS = 40
"""Number of pairs of clusters that are shown, those with the weakest valleys."""


def pages(result: Any) -> list[Section]:
    """Sections of a report about SMIC."""
    return [section for section in (_valleys(result), _eigenvalues(result)) if section is not None]


def _valleys(result: Any) -> Section | None:
    if result.valleys is None or not len(pairs := result.valleys.pairs):
        return None
    rows = [(int(row.cluster), int(row.neighbor), row.depth, row.z) for row in pairs.head(MOST_PAIRS).itertuples()]
    caption = (
        f"{len(rows)} of {count(len(pairs), 'pair')} of clusters that touch, those separated least first. Depth: "
        "density at the bottom of the valley over that of the lower peak, 1 for no valley. z: how many standard errors "
        f"it is deep; {result.valleys.threshold:.2g} and more separate two clusters."
    )
    table = Table(("Cluster", "Neighbour", "Depth", "z"), rows, caption)
    return Section("valleys", "Valleys between clusters", [table])


def _eigenvalues(result: Any) -> Section | None:
    spectra = result.diagnostics.get("eigen", [])
    if not spectra:
        return None
    named = {f"t = {spectrum['t']} ({q})": spectrum["ritz_values"] for q, spectrum in enumerate(spectra)}
    most = max(map(len, named.values()))
    curves = {name: [*values, *[float("nan")] * (most - len(values))] for name, values in named.items()}
    draw = drawings.curves(range(1, most + 1), curves, ("number", "eigenvalue"))
    alt = f"Leading eigenvalues of {count(len(named), 'kernel matrix', 'kernel matrices')}"
    caption = "Leading eigenvalues of the kernel matrices: a gap after the c-th speaks for c clusters."
    parts: list[Part] = [Figure(draw, alt, caption, (WIDTH, 2.8))]
    return Section("eigenvalues", "Eigenvalues", parts)
