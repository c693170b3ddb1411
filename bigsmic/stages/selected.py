"""selected: the rows of the archive that a fit used, if not all."""

from typing import Any

from bigsmic.numerics.selection import Selection
from bigsmic.store import Run, SelectedSource

STAGE = "selected"


def keep(run: Run, source: Any) -> None:
    """Write the selection of fitted rows, if these are not all."""
    if isinstance(source, SelectedSource) and not run.done(STAGE, 0):
        chosen = source.selection
        mask = {} if chosen.packed is None else {"valid": chosen.packed}
        run.write(STAGE, 0, mask, info={"start": chosen.start, "stop": chosen.stop})


def is_part(run: Run) -> bool:
    """Whether a run used only some rows of its archive."""
    return "selected" in run.identity["input"]


def of_run(run: Run, source: Any) -> Any:
    """The rows of an archive that a run used, as a source."""
    if not is_part(run):
        return source
    selection = read(run)
    return SelectedSource(source, selection) if source.shape[0] >= selection.stop else source


def read(run: Run) -> Selection:
    """The selection of rows that a run used."""
    if not is_part(run):
        return Selection(0, run.identity["input"]["rows"])
    info = run.info(STAGE, 0)
    packed = run.read(STAGE, 0, "valid") if "valid" in run.identity["input"]["selected"] else None
    return Selection(info["start"], info["stop"], packed)
