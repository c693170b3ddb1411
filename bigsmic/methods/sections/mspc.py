"""Report sections about a fit by MSPC: the splits and their hyperplanes."""

from typing import Any

from bigsmic.report import WIDTH, Figure, Finding, Part, Section, Table, drawings
from bigsmic.report.words import listed
from bigsmic.tables import count

LEAST_MSP = 0.7
"""Separation probability below which both sides of a hyperplane are considered to overlap."""


def pages(result: Any) -> list[Section | Finding]:
    """Findings about the splits, and their section."""
    splits = result.diagnostics.get("splits", [])
    if not splits:
        return []
    return [*_findings(splits), Section("splits", "Splits of MSPC", _parts(result, splits))]


def _findings(splits: list[dict[str, Any]]) -> list[Finding]:
    found = []
    ended = [s for s, split in enumerate(splits) if split["ended"] != "converged"]
    if ended:
        text = f"{count(len(ended), 'split')} had not converged: {listed(ended)}."
        found.append(Finding("warning", text, "Raise max_iter, or try another reg."))
    weak = [f"{s} ({split['msp']:.2f})" for s, split in enumerate(splits) if split["msp"] < LEAST_MSP]
    if weak:
        said = count(len(weak), "split tells its", "splits tell their")
        text = f"{said} two sides apart with a probability below {LEAST_MSP}: {listed(weak)}."
        found.append(Finding("warning", text, "Ask for fewer clusters, or use a method that is not linear."))
    return found


def _parts(result: Any, splits: list[dict[str, Any]]) -> list[Part]:
    w, _ = result.halfspaces
    rows = [
        (s, split["msp"], int(split["counts"][0]), int(split["counts"][1]), split["n_iter"], split["ended"])
        for s, split in enumerate(splits)
    ]
    caption = (
        "Splits in the order in which they were made. MSP: least probability with which a row of one side is told from "
        "the other, 1 for certainty."
    )
    draw = drawings.weights(w, ("column", "split"))
    size = (WIDTH, min(8.0, 1.3 + 0.2 * len(w)))
    alt = f"Weights of {len(w)} hyperplanes on the columns, as an image"
    return [
        Table(("Split", "MSP", "Rows on one side", "Rows on the other", "Iterations", "Ended"), rows, caption),
        Figure(draw, alt, "Normals of the hyperplanes, in the units of the input.", size),
    ]
