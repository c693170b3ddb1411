"""Report sections about a fit by MWCA: the starts, and overlaps of memberships."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from bigsmic.report import Figure, Finding, Section, Table, drawings
from bigsmic.tables import count
from bigsmic.types import Floats
from bigsmic.views.passes import Block, Sight

SAME = 1e-6
"""Relative difference of associations below which two starts count as equal."""
MOST_CLUSTERS = 60
"""Largest number of clusters in an image of memberships."""


def pages(result: Any) -> list[Section | Finding]:
    """Findings about the ascents, and sections about starts and memberships."""
    ascent = result.diagnostics.get("ascent")
    if not ascent:
        return []
    return [*_findings(ascent), *_starts(result, ascent), *_memberships(result)]


def _has_starts(ascent: dict[str, Any]) -> bool:
    """Whether memberships come from ascents from several starts, and not from an eigenvector."""
    return isinstance(ascent.get("n_iter"), list)


def _findings(ascent: dict[str, Any]) -> list[Finding]:
    if not _has_starts(ascent):
        return []
    found, best = [], ascent["best"]
    if not ascent["converged"][best]:
        found.append(Finding("warning", "The best start still gained when it was stopped.", "Raise max_iter, or tol."))
    values = np.array(ascent["association"])
    same = int((values >= values[best] * (1 - SAME)).sum())
    if len(values) > 1 and same == 1:
        text = f"Only one of {count(len(values), 'start')} found the best memberships: another might find better ones."
        found.append(Finding("note", text, "Raise n_starts, and see whether the labels stay."))
    return found


def _starts(result: Any, ascent: dict[str, Any]) -> list[Section]:
    if not _has_starts(ascent):
        return []
    rows = [
        (start, value, n_iter, converged, start == ascent["best"])
        for start, (value, n_iter, converged) in enumerate(
            zip(ascent["association"], ascent["n_iter"], ascent["converged"], strict=True)
        )
    ]
    caption = (
        f"Association within clusters, per row. Width of the windows: {result.sigma:.4g} in units of the scaled rows."
    )
    columns = ("Start", "Association", "Iterations", "Converged", "Taken")
    return [Section("starts", "Starts of MWCA", [Table(columns, rows, caption)])]


def _memberships(result: Any) -> list[Section]:
    c = result.n_clusters
    if not sights(result):
        return []
    draw = drawings.shares(mean_memberships(result), ("membership in cluster", "rows of cluster"))
    side = min(7.0, 2.5 + 0.15 * c)
    caption = "Mean membership of the rows of each cluster in every cluster: off the diagonal, clusters share rows."
    alt = f"Mean memberships of the rows of {count(len(result.numbers), 'cluster')}, as an image"
    figure = Figure(draw, alt, caption, (side + 1, side))
    return [Section("memberships", "Memberships", [figure])]


@dataclass(frozen=True)
class Memberships(Sight):
    """Sums of the posteriors of the rows of every cluster."""

    def __call__(self, block: Block) -> Floats:
        """Sums over a block: float64, shape (c, c)."""
        total = np.zeros((block.posterior.shape[1],) * 2)
        np.add.at(total, block.labels, block.posterior)
        return total


def sights(result: Any) -> list[Sight]:
    """Statistics of the rows that the sections need."""
    return [Memberships()] if len(result.numbers) > 1 and result.n_clusters <= MOST_CLUSTERS else []


def mean_memberships(result: Any) -> Floats:
    """Mean posterior of the rows of every cluster, float64, shape (c, c)."""
    (total,) = result._look(Memberships())
    means: Floats = total / np.maximum(result.sizes, 1)[:, None]
    return means
