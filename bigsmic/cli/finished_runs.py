"""Commands that read a finished run and write nothing to it: show and export."""

from typing import Annotated, Any

import typer

from bigsmic.cli.application import command
from bigsmic.cli.options import STORAGE, parted

FINISHED = "Finished runs"
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="Run directory of a finished fit.")]
Labelings = Annotated[bool, typer.Option("--labelings", help="Also show a table of all labelings that were compared.")]


@command({"Rows": STORAGE}, section=FINISHED)
def show(screen: Any, run: RunArgument, labelings: Labelings = False, **given: Any) -> None:
    """Show again what the fit of RUN printed."""
    from bigsmic import Result
    from bigsmic.cli import formatting

    result = Result.open(run, **given)
    screen.give(formatting.fit_document(result), formatting.fit_page(result, labelings))


@command({"Rows": STORAGE}, section=FINISHED)
def export(
    screen: Any,
    run: RunArgument,
    out: Annotated[str, typer.Argument(metavar="OUT", help="New file or folder, named .csv, .parquet, .npy or .zarr.")],
    columns: Annotated[
        str | None,
        typer.Option(help="Which of row,label,name,agreement,noise,posterior to write; all that there are by default."),
    ] = None,
    **given: Any,
) -> None:
    """Write the labels of RUN, and how certain they are, as a table with one row for each row of the input."""
    from bigsmic import Result

    result = Result.open(run, **given)
    wanted = None if columns is None else parted(columns)
    document = {"run": result.location, "out": result.export(out, columns=wanted), "rows": result.diagnostics["rows"]}
    screen.write(document)
    screen.say([f"{document['rows']:,} rows are in {document['out']}"])
