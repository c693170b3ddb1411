"""names: the user's names of clusters in a finished run. A fit with ``like=`` starts with those of that run."""

from collections.abc import Mapping

from bigsmic.runtime.context import Context
from bigsmic.stages import numbering

STAGE = "names"


def stored(context: Context) -> dict[int, str]:
    """Names by number; an empty one was removed."""
    found = numbering.info(context).get(STAGE, [])
    if context.run.done(STAGE, 0):
        found = context.run.info(STAGE, 0)[STAGE]
    return {int(number): str(name) for number, name in found}


def given(context: Context) -> dict[int, str]:
    """Names that clusters have, by number."""
    return {number: name for number, name in sorted(stored(context).items()) if name}


def write(context: Context, names: Mapping[int, str]) -> None:
    """Add names to those of a finished run.

    Raises
    ------
    RunError
        The run cannot be written, or another process is writing to it.
    """
    run = context.run.for_writing()
    try:
        known = stored(Context(None, context.run, context.settings)) | dict(names)
        run.write(STAGE, 0, {}, info={STAGE: sorted(known.items())})
    finally:
        run.close()
