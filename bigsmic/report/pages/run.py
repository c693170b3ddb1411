"""The run: its rows, its settings other than the defaults, and its environment."""

from typing import Any

import numpy as np

from bigsmic.report.document import Facts, Section
from bigsmic.report.subject import Subject
from bigsmic.report.words import listed
from bigsmic.runtime.diagnostics import own_spreads, scaling_text
from bigsmic.settings.options import options_of
from bigsmic.tables import bytes_text, count, seconds_text

MOST_CHARACTERS = 200
"""Largest length of the text of a setting's value."""
SCALES = {
    None: "taken as they are",
    "standard": "divided by their standard deviation",
    "mixed": "divided by their standard deviation",
    "variance": "divided by their variance",
    "range": "divided by half of their range",
}
"""What a given `scale` does to columns; see :func:`bigsmic.numerics.scaling.scaler`."""


def section(subject: Subject) -> Section:
    """The run."""
    result, found = subject.result, subject.result.diagnostics
    rows = [
        ("Run", result.location),
        ("Archive", subject.archive_text),
        ("Rows", f"{count(found['rows'], 'row')} of {count(found['columns'], 'column')}, {_dtype(subject)}"),
        ("Method", result.settings.method),
        ("Clusters", _clusters(result)),
        ("Other than the defaults", _changed(result.settings, found["rows"])),
        ("Columns", _scaling(found)),
        ("Took", _costs(found)),
        ("Versions", _versions(found)),
    ]
    return Section("run", "What ran", [Facts([(name, value) for name, value in rows if value])])


def _clusters(result: Any) -> str:
    """Number of clusters, and whether it was given or found."""
    if result.settings.undecided:
        return "not decided"
    n, asked = len(result.numbers), result.settings.n_clusters
    if not result.settings.number_given:
        return f"{n:,}, a number that the fit found"
    return f"{n:,}, as asked for" if n == asked else f"{n:,} of the {asked:,} that were asked for"


def _dtype(subject: Subject) -> str:
    stored = subject.input["dtype"]
    decoded = subject.input.get("decoded")
    return f"{np.dtype(stored).name}, decoded ({decoded})" if decoded else np.dtype(stored).name


def _changed(settings: Any, n: int) -> str:
    """Settings other than the defaults, except the number of clusters."""
    stored, default = settings.identity(), _defaults(settings, n)
    changed = [
        f"{name} = {_shortened(stored[name])}"
        for name in options_of(settings)
        if getattr(settings, name) != getattr(default, name)
    ]
    return "; ".join(changed) or "nothing"


def _defaults(settings: Any, n: int) -> Any:
    """The settings with all defaults except the number of clusters."""
    c = None if settings.undecided else settings.n_clusters
    return type(settings).of(c).fitted_to(n)[0]


def _shortened(value: object) -> str:
    text = str(list(value) if isinstance(value, tuple) else value)
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]} .."


def _scaling(found: dict[str, Any]) -> str:
    """How columns were scaled: as the fit chose, or as it was told."""
    scaling = found.get("scaling", {})
    if "scale" not in scaling:  # of a graph
        return ""
    return scaling_text(found) or f"{SCALES[scaling['scale']]}{own_spreads(scaling)}"


def _costs(found: dict[str, Any]) -> str:
    stages = found.get("stages", {}).values()
    wall, cpu = (sum(stage[name] for stage in stages) for name in ("wall", "cpu"))
    peak = max((stage["peak_bytes"] for stage in stages), default=0)
    return f"{seconds_text(wall)}, of processors {seconds_text(cpu)}; {bytes_text(peak)} of memory at most"


def _versions(found: dict[str, Any]) -> str:
    return listed([f"{name} {version}" for name, version in found.get("versions", {}).items()], most=20)
