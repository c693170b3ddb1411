"""names: the user's names of clusters in a finished run. A fit with ``like=`` starts with those of that run."""

from collections.abc import Mapping

from bigsmic.errors import RunError
from bigsmic.runtime.context import Context
from bigsmic.stages import numbering
from bigsmic.store import Run
from bigsmic.warning import warn

STAGE = "names"


def stored(context: Context) -> dict[int, str]:
    """Names by number; an empty one was removed.

    Raises
    ------
    RunError
        They are damaged: the run is not one without names.
    """
    found = numbering.info(context).get(STAGE, [])
    if context.run.done(STAGE, 0):
        found = context.run.info(STAGE, 0)[STAGE]
    elif context.run.is_torn(STAGE, 0):
        where = f"{STAGE}/0000000/zarr.json"
        raise RunError(
            f"names: {where} in {context.run.location} is damaged, or of another run; restore it, or delete it and "
            "name the clusters again by set_names"
        )
    return {int(number): str(name) for number, name in found}


def given(context: Context) -> dict[int, str]:
    """Names that clusters have, by number."""
    return {number: name for number, name in sorted(stored(context).items()) if name}


def write(context: Context, names: Mapping[int, str]) -> None:
    """Add names to those of a finished run.

    Raises
    ------
    RunError
        The run cannot be written, another process is writing to it, or the names in it are damaged.
    """
    run = context.run.for_writing()
    try:
        known = stored(Context(None, context.run, context.settings)) | dict(names)
        run.write(STAGE, 0, {}, info={STAGE: sorted(known.items())})
    finally:
        run.close()


def warn_of_lost(run: Run) -> None:
    """Warn that names are damaged, which a fit that resumes the run strikes off its ledger, and cannot find again."""
    if run.is_torn(STAGE, 0):
        warn(f"names: those of clusters in {run.location} are damaged, and lost; name the clusters again by set_names")
