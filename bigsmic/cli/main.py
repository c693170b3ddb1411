"""The command ``bigsmic``: fit, cut, predict, plan and demo.

Exit codes::

    0    done
    1    something unexpected; --debug shows where
    2    the command line is wrong
    3    the rows or a parameter cannot be used (InputError)
    4    the work does not fit the memory or the disk (PlanError)
    5    the run directory cannot be used (RunError)
    6    the store refused to read or write (StorageError)
    7    the cluster does not answer, or loses workers again and again (ClusterError)
    75   another process writes to the run directory (RunLockedError); try again later
    130  interrupted; with --out, the same command goes on where it stopped

Results go to stdout, everything else to stderr. A command imports what it needs when it runs, so that ``--help`` is
quick.
"""

import inspect
import os
import signal
import sys
from contextlib import contextmanager, nullcontext
from typing import Annotated

import typer

from bigsmic.cli.flags import Flag
from bigsmic.cli.options import FIT, RESOURCES, ROWS, STORAGE, as_typed, storage_options
from bigsmic.errors import ClusterError, InputError, PlanError, RunError, RunLockedError, StorageError

UNEXPECTED, INTERRUPTED = 1, 130
STOPPED = "interrupted; with --out, the same command goes on where it stopped"
EXIT_CODES = {InputError: 3, MemoryError: 4, RunLockedError: 75, RunError: 5, StorageError: 6, ClusterError: 7}
"""The first that fits counts. 75 is what sysexits.h has for failures that pass: schedulers may try again."""
EPILOG = (
    "[bold]Exit codes[/bold]  0 done, 1 unexpected, 2 wrong command line, 3 bad input, 4 does not fit memory or disk, "
    "5 run directory, 6 storage, 7 cluster, 75 run in use, 130 interrupted: with --out, the same command goes on where "
    "it stopped."
)

app = typer.Typer(
    help="Clusters of rows on disk: Zarr archives larger than memory in, labels and how sure they are out.",
    epilog=f"New here? Try [bold]bigsmic demo[/bold].\n\n{EPILOG}",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main():
    """Run the command line."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a shell may have had it ignored
        signal.signal(signal.SIGINT, _interrupt)
    try:
        app(prog_name="bigsmic")
    except SystemExit as end:
        if end.code == INTERRUPTED:
            # Zarr's event loop may be in the middle of a call, and would complain of it when the interpreter ends
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(INTERRUPTED)
        raise


def _interrupt(number, frame):
    """Raise KeyboardInterrupt, but in an import: what modules make of one is anything, and what they leave is broken.

    A run survives that as it survives any kill.
    """
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            os.write(2, f"bigsmic: error: {STOPPED}\n".encode())
            os._exit(INTERRUPTED)
        frame = frame.f_back
    raise KeyboardInterrupt


# -- options


OUTPUT = (
    Flag("json", bool, "Print one JSON document, nothing else."),
    Flag("quiet", bool, "Neither progress nor tables."),
    Flag("debug", bool, "Show where an error comes from."),
)


def command(panels):
    """Register a function as a command that has further options.

    Parameters
    ----------
    panels : dict of str to tuple of Flag
        The options, by the panel of the help that shows them. The function is called with a Screen, its own
        parameters, and those of the options that were given.
    """
    flags = [flag for panel in panels.values() for flag in panel]

    def register(function):
        def run(**values):
            shown = {flag.name: values.pop(flag.name) for flag in OUTPUT}
            typed = {flag: values.pop(flag.name) for flag in flags}
            method = next((value for flag, value in typed.items() if flag.name == "method"), None)
            given = {flag.name: _converted(flag, value, method) for flag, value in typed.items() if value is not None}
            if any(flag.name == "storage_options" for flag in flags):
                given = _with_storage_options(given)
            with _screen(**shown, translate=lambda message, leads: as_typed(message, flags, leads)) as screen:
                function(screen, **values, **given)

        added = [flag.parameter(name) for name, panel in {**panels, "Output": OUTPUT}.items() for flag in panel]
        own = list(inspect.signature(function).parameters.values())[1:-1]
        own = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
        run.__signature__ = inspect.Signature(own + added)  # type: ignore[attr-defined]
        run.__doc__ = function.__doc__
        app.command(function.__name__, epilog=EPILOG)(run)
        return function

    return register


def _converted(flag, typed, method):
    try:
        return flag.value(typed, method)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=repr(flag.spelling)) from None


def _with_storage_options(given):
    """The same with the storage options of all places, if there are any."""
    given = dict(given)
    try:
        found = storage_options(given.pop("storage_options_file", None), given.pop("storage_options", {}))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="storage options") from None
    return given | {"storage_options": found} if found else given


@contextmanager
def _screen(json, quiet, debug, translate):
    """A screen; whatever goes wrong is said on it and becomes the exit code."""
    from bigsmic.cli.console import Screen

    screen = Screen(json, quiet, debug, translate)
    try:
        _refuse_few_addresses()
        with screen.warnings_in_one_line():
            yield screen
    except (typer.Exit, BrokenPipeError):
        raise
    except KeyboardInterrupt as error:
        screen.fail(error, STOPPED, INTERRUPTED)
        raise typer.Exit(INTERRUPTED) from None
    except Exception as error:
        code = next((code for kind, code in EXIT_CODES.items() if isinstance(error, kind)), UNEXPECTED)
        unexpected = code == UNEXPECTED
        hint = " (--debug shows where)" if unexpected and not debug else ""
        screen.fail(error, f"{type(error).__name__}: {error}{hint}" if unexpected else str(error), code)
        raise typer.Exit(code) from None


LEAST_ADDRESSES = 768 << 20  # for the libraries alone, which end in many ways, aborts among them, where they lack any


def _refuse_few_addresses():
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < LEAST_ADDRESSES:
        raise PlanError(
            f"memory: `ulimit -v` allows this process {limit >> 20} MiB of addresses, its libraries alone take up to "
            f"{LEAST_ADDRESSES >> 20}; raise it to 2 GiB or more, and bound memory by --memory-limit"
        )


def _show_version(wanted):
    if wanted:
        from bigsmic.version import __version__

        typer.echo(f"bigsmic {__version__}")
        raise typer.Exit


@app.callback()
def _bigsmic(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
):
    pass


# -- commands

Archive = Annotated[str, typer.Argument(help="Path or URL of a Zarr array, or of a group with --component.")]
Clusters = Annotated[
    int | None, typer.Option("-c", "--clusters", help="Number of clusters; without, as many as valleys part.")
]


@command(FIT)
def fit(
    screen,
    archive: Archive,
    out: Annotated[str, typer.Option("-o", "--out", help="Run directory: a path or URL.")],
    c: Clusters = None,
    **given,
):
    """Cluster the rows of ARCHIVE; the same command again goes on where it stopped."""
    from bigsmic.cli import formatting

    result = _fit(screen, archive, c, out, given)
    screen.write(formatting.fit_document(result))
    screen.say(formatting.fit_page(result))


def _fit(screen, archive, c, out, given):
    from bigsmic import fit

    return fit(archive, c, out=out, progress=not screen.quiet, **given)


@command({"Rows": STORAGE})
def cut(
    screen,
    run: Annotated[str, typer.Argument(help="Run directory of a finished fit.")],
    c: Annotated[int, typer.Option("-c", "--clusters", help="Number of clusters.")],
    out: Annotated[str, typer.Option("-o", "--out", help="Run directory for the result: a path or URL.")],
    **given,
):
    """Cut RUN into another number of clusters, without another fit."""
    from bigsmic import Result
    from bigsmic.cli import formatting

    result = Result.open(run, **given).cut(c).save(out, **given)
    screen.write(formatting.fit_document(result))
    screen.say(formatting.fit_page(result))


@command({"Rows": ROWS, "Resources": RESOURCES[1:]})
def predict(
    screen,
    run: Annotated[str, typer.Argument(help="Run directory of a finished fit.")],
    rows: Annotated[str, typer.Argument(help="Path or URL of a Zarr array, or of a group with --component.")],
    out: Annotated[str, typer.Option("-o", "--out", help="Zarr group for labels and posterior.")],
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Write over other labels and posterior in that group.")
    ] = False,
    **given,
):
    """Give new ROWS to the clusters of RUN."""
    from bigsmic import Result
    from bigsmic.cli import formatting

    result = Result.open(run, storage_options=given.get("storage_options"))
    labels = result.predict(rows, out=out, overwrite=overwrite, progress=not screen.quiet, **given)
    document = formatting.predict_document(labels, result, out)
    screen.write(document)
    screen.say(formatting.predict_page(document))


@command(FIT)
def plan(
    screen,
    archive: Archive,
    c: Clusters = None,
    out: Annotated[str | None, typer.Option("-o", "--out", help="Run directory whose disk is looked at.")] = None,
    **given,
):
    """Say what a fit of ARCHIVE takes, before it runs: memory, disk and work of every stage."""
    import bigsmic
    from bigsmic.cli import formatting

    planned = bigsmic.plan(archive, c, **given)
    screen.say(formatting.plan_page(planned))
    formatting.refuse_full_disk(planned, out)
    screen.write(formatting.plan_document(planned))


@command({"Resources": RESOURCES})
def demo(
    screen,
    spikes: Annotated[int, typer.Option(help="Rows to simulate.")] = 50_000,
    units: Annotated[int, typer.Option(help="Neurons, and clusters to find.")] = 12,
    seed: Annotated[int, typer.Option(help="Equal seeds give equal spikes.")] = 0,
    out: Annotated[str | None, typer.Option("-o", "--out", help="Folder to keep it in.")] = None,
    **given,
):
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
def _temporary_folder():
    from bigsmic.store import remove_tree, temporary_folder

    folder = temporary_folder("demo")
    try:
        yield folder
    finally:
        remove_tree(folder)


def _demonstrate(screen, simulator, folder, given):
    """Simulate, fit, compare; what came out, as a JSON-like dict."""
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
