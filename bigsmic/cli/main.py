"""The command ``bigsmic``: fit, cut, predict, plan and demo; commands that read finished runs are in ``finished_runs``.

Exit codes::

    0    done
    1    an unexpected error; --debug shows where
    2    the command line is wrong
    3    the rows or a parameter cannot be used (InputError)
    4    the work does not fit the memory or the disk (PlanError)
    5    the run directory cannot be used (RunError)
    6    a read or write failed (StorageError)
    7    the cluster does not answer, or keeps losing workers (ClusterError)
    9    a refit is recommended (update --fail-on-drift)
    75   another process writes to the run directory (RunLockedError); try again later
    130  interrupted; with --out, the same command resumes the work

Results go to stdout, everything else to stderr. A command imports what it needs when it runs, so that ``--help`` is
quick.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Annotated, Any

import typer

from bigsmic.cli import finished_runs, names, nightly, report, sensors
from bigsmic.cli.application import EXIT_CODES, INTERRUPTED, STOPPED, app, command
from bigsmic.cli.finished_runs import FINISHED, Labelings, RunArgument
from bigsmic.cli.options import BLOCKWISE, FIT, IMAGINED, RESOURCES, ROWS, STORAGE, number_of_clusters

__all__ = ["EXIT_CODES", "FIT", "app", "finished_runs", "main", "names", "nightly", "report", "sensors"]


def main() -> None:
    """Run the command line."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a shell may have set it to be ignored
        signal.signal(signal.SIGINT, _interrupt)
    if getattr(sys.stdout, "errors", None) == "strict":  # names and paths may have letters that its encoding lacks
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        app(prog_name="bigsmic")
    except SystemExit as end:
        if end.code == INTERRUPTED:
            # Zarr's event loop may be in the middle of a call, and would report an error when the interpreter ends
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:
                    with suppress(OSError):
                        stream.flush()
            os._exit(INTERRUPTED)
        _let_go_of_stderr()
        raise
    except KeyboardInterrupt:  # before a command has begun
        _end_interrupted()


def _let_go_of_stderr() -> None:
    """Keep a stderr that cannot be written from changing the exit code when the interpreter flushes it."""
    if sys.stderr is None:
        return
    try:
        sys.stderr.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stderr.fileno())
        os.close(nowhere)


def _interrupt(number: int, frame: Any) -> None:
    """Raise KeyboardInterrupt; during an import, which it would leave half done, end the process instead.

    A run survives this like any kill.
    """
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            _end_interrupted()
        frame = frame.f_back
    raise KeyboardInterrupt


def _end_interrupted() -> None:
    with suppress(OSError):
        os.write(2, f"bigsmic: error: {STOPPED}\n".encode())
    os._exit(INTERRUPTED)


# -- commands

Archive = Annotated[
    str,
    typer.Argument(
        metavar="ARCHIVE",
        help="Path or URL of a Zarr array, or of a group with --component; or a .npy, .csv, .tsv or .parquet file.",
    ),
]
Clusters = Annotated[
    int | None,
    typer.Option(
        "-c",
        "--clusters",
        help="Number of clusters; by default smic and 3smic find it, and rim and kernel_rim keep what their penalty "
        "leaves.",
        parser=number_of_clusters,
        metavar="<int>",
    ),
]


@command(FIT)
def fit(
    screen: Any,
    archive: Archive,
    out: Annotated[str, typer.Option("-o", "--out", help="Run directory: a path or URL.")],
    c: Clusters = None,
    labelings: Labelings = False,
    **given: Any,
) -> None:
    """Cluster the rows of ARCHIVE; the same command resumes an interrupted fit."""
    from bigsmic.cli import formatting

    result = _fit(screen, archive, c, out, given)
    screen.give(formatting.fit_document(result), formatting.fit_page(result, labelings))


def _fit(screen: Any, archive: Any, c: Any, out: Any, given: Any) -> Any:
    from bigsmic import fit

    return fit(archive, c, out=out, progress=not screen.quiet, **given)


@command({"Rows": STORAGE}, section=FINISHED)
def cut(
    screen: Any,
    run: RunArgument,
    c: Annotated[int, typer.Option("-c", "--clusters", help="Number of clusters.")],
    out: Annotated[str, typer.Option("-o", "--out", help="Run directory for the result: a path or URL.")],
    labelings: Labelings = False,
    **given: Any,
) -> None:
    """Cut the tree of RUN at another number of clusters, without another fit."""
    from bigsmic import Result
    from bigsmic.cli import formatting
    from bigsmic.portable import is_cut, refuse_taken

    result = Result.open(run, **given)
    if is_cut(out, result._context.run, c, **given):
        result = Result.open(out, **given)
    else:
        refuse_taken(out)  # before the work is done
        result = result.cut(c).save(out, **given)
    screen.give(formatting.fit_document(result), formatting.fit_page(result, labelings))


@command({"Rows": ROWS, "Resources": BLOCKWISE}, section=FINISHED)
def predict(
    screen: Any,
    run: RunArgument,
    archive: Annotated[
        str,
        typer.Argument(
            metavar="ROWS",
            help="Path or URL of a Zarr array, or of a group with --component; or a .npy, .csv, .tsv or .parquet file.",
        ),
    ],
    out: Annotated[str, typer.Option("-o", "--out", help="Zarr group for labels and posterior.")],
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Overwrite other labels and posterior in that group.")
    ] = False,
    **given: Any,
) -> None:
    """Assign new ROWS to the clusters of RUN."""
    from bigsmic import Result
    from bigsmic.cli import formatting

    result = Result.open(run, storage_options=given.get("storage_options"))
    labels = result.predict(archive, out=out, overwrite=overwrite, progress=not screen.quiet, **given)
    document = formatting.predict_document(labels, result, out)
    screen.write(document)
    screen.say(formatting.predict_page(document))


@command({"Plan": IMAGINED, **FIT})
def plan(
    screen: Any,
    archive: Archive,
    c: Clusters = None,
    out: Annotated[
        str | None, typer.Option("-o", "--out", help="Run directory of the fit; whether its disk has room is checked.")
    ] = None,
    **given: Any,
) -> None:
    """Show memory, disk, work and time that a fit of ARCHIVE takes, before it runs."""
    import bigsmic
    from bigsmic.cli import formatting
    from bigsmic.runtime.plan_text import plan_page

    planned = bigsmic.plan(archive, c, out=out, **given)
    screen.say(plan_page(planned))
    formatting.refuse_full_disk(planned, out)
    screen.write(formatting.plan_document(planned))


@command({"Resources": RESOURCES})
def demo(
    screen: Any,
    spikes: Annotated[int, typer.Option(help="Rows to simulate.")] = 50_000,
    units: Annotated[int, typer.Option(help="Neurons, and clusters to find.")] = 12,
    seed: Annotated[int, typer.Option(help="Equal seeds give equal spikes.")] = 0,
    out: Annotated[str | None, typer.Option("-o", "--out", help="Folder in which archive and run are kept.")] = None,
    **given: Any,
) -> None:
    """Simulate spikes of neurons near a tetrode, cluster them, and compare with the truth."""
    from bigsmic.cli import formatting
    from bigsmic.datasets import TetrodeSimulator

    simulator = TetrodeSimulator(n_rows=spikes, n_units=units, seed=seed)
    with nullcontext(out) if out else _temporary_folder() as folder:
        screen.say(formatting.demo_opening(simulator, folder))
        document = _demonstrate(screen, simulator, folder, given)
        screen.write(document)
        screen.say(formatting.demo_page(document, kept=bool(out)))


@contextmanager
def _temporary_folder() -> Iterator[Any]:
    from bigsmic.store import remove_tree, temporary_folder

    folder = temporary_folder("demo")
    try:
        yield folder
    finally:
        remove_tree(folder)


def _demonstrate(screen: Any, simulator: Any, folder: Any, given: Any) -> Any:
    """Simulate, fit and compare; return the comparison as a JSON-like dict."""
    import time

    from bigsmic.cli import demo, formatting
    from bigsmic.engines.memory import peak_memory
    from bigsmic.runtime.progress import reported

    with reported(not screen.quiet, simulator.n_rows) as progress:
        archive = demo.write_archive(folder, simulator, progress)
    start = time.perf_counter()
    run = f"{folder}/run.zarr"
    result = _fit(screen, archive, simulator.n_units, run, {"component": "X", **given})
    costs = {"seconds": time.perf_counter() - start, "peak_bytes": peak_memory()}
    found = demo.compare(archive, result)
    return {"folder": str(folder), "rows": simulator.n_rows} | found | costs | {"fit": formatting.fit_document(result)}
