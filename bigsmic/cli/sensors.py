"""Commands for growing archives of sensors: windows of recordings, and labels of new rows."""

from typing import Annotated, Any, Literal

import typer

from bigsmic.cli.application import command
from bigsmic.cli.flags import Flag
from bigsmic.cli.options import RESOURCES, UNREPORTED, WHOLE, parted

RESOURCES_OF_WINDOWS = tuple(flag for flag in RESOURCES if flag.name != "performance_report")
SAMPLES = Flag(
    "component", str, "Array of the samples: in the group, or in each of its groups, which are then sessions."
)
RECORDINGS = tuple(SAMPLES if flag.name == SAMPLES.name else flag for flag in WHOLE)

VERIFY_ROWS = Flag("verify", Literal["some", "all"], "Compare some or all rows that were seen with what they were.")
REFIT = 9
"""Exit code of an update that recommends a refit, if --fail-on-drift was given."""
WINDOWS = (
    Flag(
        "features", str, "Of summary, spectral, raw, catch22, separated by commas; summary,spectral by default.", parted
    ),
    Flag("rate", float, "Samples per second; by default taken from --times."),
    Flag(
        "times",
        str,
        "Array with the times of the samples, beside them in the group; in seconds, if its attribute units says "
        "nothing else.",
    ),
    Flag("channels", str, "Names of the channels, separated by commas.", parted),
    Flag("verify", Literal["some", "all"], "Check some or all samples of the existing windows for changes."),
)


@command({"Windows": WINDOWS, "Recordings": RECORDINGS, "Resources": RESOURCES_OF_WINDOWS})
def windows(
    screen: Any,
    archive: Annotated[
        str,
        typer.Argument(metavar="ARCHIVE", help="Path or URL of a Zarr array of samples x channels, or a group."),
    ],
    length: Annotated[str, typer.Option("-l", "--length", help="Samples of a window, or a duration such as 10s.")],
    out: Annotated[str, typer.Option("-o", "--out", help="Zarr group for the windows: created, or extended.")],
    step: Annotated[
        str | None,
        typer.Option(
            "-s", "--step", help="From one window to the next, samples or a duration such as 5s; the length by default."
        ),
    ] = None,
    **given: Any,
) -> None:
    """Describe windows of the recordings in ARCHIVE by features; a later call adds the new windows."""
    from bigsmic.features import windows

    made = windows(archive, length, step, out=out, progress=not screen.quiet, **given)
    screen.write(windows_document(made))
    screen.say([repr(made), "", f"To cluster them:  bigsmic fit {out} --out RUN"])


@command({"Rows": WHOLE, "Update": (VERIFY_ROWS,), "Resources": UNREPORTED})
def update(
    screen: Any,
    run: Annotated[str, typer.Argument(metavar="RUN", help="Run directory of a finished fit.")],
    archive: Annotated[str, typer.Argument(metavar="ARCHIVE", help="The archive of RUN, with more rows at its end.")],
    fail_on_drift: Annotated[
        bool, typer.Option("--fail-on-drift", help=f"Exit with {REFIT} if a refit is recommended.")
    ] = False,
    **given: Any,
) -> None:
    """Label the rows of ARCHIVE that were added after the fit of RUN, and append the labels to RUN."""
    from dataclasses import asdict

    from bigsmic import Result

    result = Result.open(run, storage_options=given.get("storage_options"))
    found = result.update(archive, progress=not screen.quiet, **given)
    screen.write({"run": result.location} | asdict(found))
    screen.say([repr(found)])
    if fail_on_drift and found.recommends_refit:
        raise typer.Exit(REFIT)


def windows_document(made: Any) -> Any:
    """Number of windows, number of new ones, and their features."""
    return {
        "out": made.location,
        "windows": len(made),
        "new": made.n_new,
        "left_out": made.left_out,
        "columns": made.columns,
        "sessions": len(made.sources),
    }
