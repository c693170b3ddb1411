"""selected: which rows of the archive the fit took, where it did not take all."""

from typing import Any

from bigsmic.numerics.selection import Selection
from bigsmic.store import Run, SelectedSource

STAGE = "selected"


def keep(run: Run, source: Any) -> None:
    """Write which rows of the archive are fitted, where these are not all."""
    if isinstance(source, SelectedSource) and not run.done(STAGE, 0):
        chosen = source.selection
        mask = {} if chosen.packed is None else {"valid": chosen.packed}
        run.write(STAGE, 0, mask, info={"start": chosen.start, "stop": chosen.stop})


def is_part(run: Run) -> bool:
    """Whether a run is of some rows of its archive, and not of all."""
    return "selected" in run.identity["input"]


def of_run(run: Run, source: Any) -> Any:
    """The rows of an archive that a run is of, as a source of their own."""
    if not is_part(run):
        return source
    selection = read(run)
    return SelectedSource(source, selection) if source.shape[0] >= selection.stop else source


def read(run: Run) -> Selection:
    """The rows of the archive that a run is of."""
    if not is_part(run):
        return Selection(0, run.identity["input"]["rows"])
    info = run.info(STAGE, 0)
    packed = run.read(STAGE, 0, "valid") if "valid" in run.identity["input"]["selected"] else None
    return Selection(info["start"], info["stop"], packed)
