"""``bigsmic nightly``: runs the steps of a job file every night."""

from typing import Annotated, Any

import typer

from bigsmic.cli.application import command
from bigsmic.cli.flags import Flag
from bigsmic.cli.options import STORAGE, as_typed
from bigsmic.nightly.wording import by_keys

CHECK = Flag("check", bool, "Check the job file, its archive, memory, and places to write to; do nothing else.")


def _translated(message: str, leads: bool) -> str:
    return as_typed(by_keys(message, leads), STORAGE, leads)


@command({"Job": (CHECK,), "Rows": STORAGE}, translate=_translated, stopped="interrupted; the same command goes on")
def nightly(
    screen: Any, job: Annotated[str, typer.Argument(metavar="JOB", help="Job file, in TOML.")], **given: Any
) -> None:
    """Do the steps of JOB that are due for a growing archive: label new rows, fit again, report, delete old runs."""
    from bigsmic.nightly import Job, check
    from bigsmic.nightly import nightly as do_what_is_due
    from bigsmic.tables import folded

    read = Job.read(job)
    if given.pop("check"):
        rows = check(read, **given)
        screen.write({"job": job, "archive": read.archive, "folder": read.folder, "rows": rows})
        screen.say(
            [f"{job} is valid, for {rows:,} rows at present; bigsmic nightly {job} does the steps that are due."]
        )
        return
    outcome = do_what_is_due(read, progress=not screen.quiet, **given)
    screen.write(outcome.document())
    screen.say([folded(outcome.sentence)])
