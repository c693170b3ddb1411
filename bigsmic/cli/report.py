"""``bigsmic report``: one HTML file about a run."""

from typing import Annotated, Any

import typer

from bigsmic.cli.application import command
from bigsmic.cli.finished_runs import FINISHED, RunArgument
from bigsmic.cli.flags import Flag
from bigsmic.cli.options import UNREPORTED, WHOLE

ARCHIVE = Flag("archive", str, "The rows that RUN is of: adds the pages about columns.")
NAMES = Flag("column_names", str, "Text file with a name of a column on each line.")
CHANNEL = Flag("columns_per_channel", int, "Columns are ordered, and every so many belong to another channel.")
TIMES = Flag("times", str, "File of a time for each row, .npy, .csv or Zarr: adds shares over time.")
MAP = Flag("map_rows", int, "Rows of the map, 20,000 at most and by default; 0 for no map.")
OVERWRITE = Flag("overwrite", bool, "Write over the report of another run.")
PANELS = {"Rows": (ARCHIVE, *WHOLE, NAMES), "Report": (CHANNEL, TIMES, MAP, OVERWRITE), "Resources": UNREPORTED}


@command(PANELS, section=FINISHED)
def report(
    screen: Any,
    run: RunArgument,
    out: Annotated[str, typer.Option("-o", "--out", help="HTML file to write: a path or URL.")],
    **given: Any,
) -> None:
    """Write one HTML file about RUN: the clusters, and how far to trust them."""
    from bigsmic import Result

    names = given.pop("column_names", None)
    given["column_names"] = None if names is None else _names(names)
    result = Result.open(run, storage_options=given.get("storage_options"))
    result.report(out, given.pop("archive", None), **given)
    screen.write({"out": out, "run": result.location})
    screen.say([f"the report of {result.location} is in {out}"])


def _names(path: str) -> list[str]:
    """Lines of a text file.

    Raises
    ------
    InputError
        The file cannot be read.
    """
    from bigsmic.errors import InputError

    try:
        with open(path, encoding="utf-8") as opened:
            return opened.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"column_names: {path} cannot be read ({error}); give a text file with one name per line"
        ) from None
