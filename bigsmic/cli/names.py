"""``bigsmic name``: names of the clusters of a run."""

from typing import Annotated, Any

import typer

from bigsmic.cli.application import command
from bigsmic.cli.finished_runs import FINISHED, RunArgument
from bigsmic.cli.options import STORAGE


@command({"Rows": STORAGE}, section=FINISHED)
def name(
    screen: Any,
    run: RunArgument,
    cluster: Annotated[int | None, typer.Argument(metavar="CLUSTER", help="Number of a cluster.")] = None,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Its name; an empty one removes it.")] = None,
    **given: Any,
) -> None:
    """Name a cluster of RUN; a later fit with --like keeps the name. Without arguments, show the names."""
    from bigsmic import Result
    from bigsmic.cli.formatting import names_document
    from bigsmic.errors import InputError
    from bigsmic.tables import tables

    if (cluster is None) != (name is None):
        raise InputError(f"name: got cluster {cluster} without a name; give both, or neither to see the names")
    result = Result.open(run, **given)
    if cluster is not None:
        result.set_names({cluster: name})
    rows = [{"cluster": number, "name": text} for number, text in result.names.items()]
    screen.write({"run": result.location, "names": names_document(result)})
    screen.say([*tables(rows)] if rows else ["no cluster has a name: bigsmic name RUN CLUSTER NAME gives one"])
