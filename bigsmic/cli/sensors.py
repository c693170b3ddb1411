"""Commands for archives of sensors, which grow: windows of recordings, and labels of what is new."""

from typing import Annotated, Any, Literal

import typer

from bigsmic.cli.application import command
from bigsmic.cli.flags import Flag
from bigsmic.cli.options import RESOURCES, UNREPORTED, WHOLE, parted

RESOURCES_OF_WINDOWS = tuple(flag for flag in RESOURCES if flag.name != "performance_report")


VERIFY_ROWS = Flag("verify", Literal["some", "all"], "Compare some or all rows that were seen with what they were.")
REFIT = 9
"""Exit code of an update after which a refit is recommended, where that was asked for."""
WINDOWS = (
    Flag(
        "features", str, r"Of summary, spectral, raw, catch22, parted by commas; summary,spectral by default.", parted
    ),
    Flag("rate", float, "Samples per second; what --times says by default."),
    Flag("times", str, "Array of the times of the samples, beside them."),
    Flag("channels", str, "Names of the channels, parted by commas.", parted),
    Flag("verify", Literal["some", "all"], "Check some or all samples behind the windows that are there."),
)


@command({"Windows": WINDOWS, "Recordings": WHOLE, "Resources": RESOURCES_OF_WINDOWS})
def windows(
    screen: Any,
    archive: Annotated[str, typer.Argument(help="Path or URL of a Zarr array of samples x channels, or a group.")],
    length: Annotated[str, typer.Option("-l", "--length", help="Samples of a window, or a duration such as 10s.")],
    out: Annotated[str, typer.Option("-o", "--out", help="Zarr group for the windows: made, or extended.")],
    step: Annotated[
        str | None, typer.Option("-s", "--step", help="Samples from one window to the next; the length by default.")
    ] = None,
    **given: Any,
) -> None:
    """Describe windows of the recordings in ARCHIVE by features; again, it adds what is new."""
    from bigsmic.features import windows

    made = windows(archive, length, step, out=out, progress=not screen.quiet, **given)
    screen.write(windows_document(made))
    screen.say([repr(made), "", f"To cluster them:  bigsmic fit {out} --out RUN"])


@command({"Rows": WHOLE, "Update": (VERIFY_ROWS,), "Resources": UNREPORTED})
def update(
    screen: Any,
    run: Annotated[str, typer.Argument(help="Run directory of a finished fit.")],
    archive: Annotated[str, typer.Argument(help="The archive that RUN is of, with more rows at its end.")],
    fail_on_drift: Annotated[
        bool, typer.Option("--fail-on-drift", help=f"Exit with {REFIT} where a refit is recommended.")
    ] = False,
    **given: Any,
) -> None:
    """Label the rows of ARCHIVE that have come since RUN, and append them to RUN; again, it finds nothing new."""
    from dataclasses import asdict

    from bigsmic import Result

    result = Result.open(run, storage_options=given.get("storage_options"))
    found = result.update(archive, progress=not screen.quiet, **given)
    screen.write({"run": result.location} | asdict(found))
    screen.say([repr(found)])
    if fail_on_drift and found.recommends_refit:
        raise typer.Exit(REFIT)


def windows_document(made: Any) -> Any:
    """How many windows there are, how many of them are new, and what they are described by."""
    return {
        "out": made.location,
        "windows": len(made),
        "new": made.n_new,
        "left_out": made.left_out,
        "columns": made.columns,
        "sessions": len(made.sources),
    }
