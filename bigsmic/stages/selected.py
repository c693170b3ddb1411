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
    """Whether the fit was of some rows of its archive, which had others."""
    return run.done(STAGE, 0)


def of_run(run: Run, source: Any) -> Any:
    """The rows of an archive that a run used, as a source; the archive may have grown since.

    An archive with too few rows is returned as it is.
    """
    selection = read(run)
    is_whole = selection.packed is None and len(selection) == source.shape[0]
    return source if is_whole or source.shape[0] < selection.stop else SelectedSource(source, selection)


def read(run: Run) -> Selection:
    """The selection of rows that a run used."""
    known = run.identity["input"]
    if "selected" not in known:
        return Selection(0, known["rows"])
    info = run.info(STAGE, 0)
    packed = run.read(STAGE, 0, "valid") if "valid" in known["selected"] else None
    return Selection(info["start"], info["stop"], packed)
