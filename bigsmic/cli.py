"""The command ``bigsmic``: fit, predict, plan and demo.

Exit codes::

    0    done
    1    something unexpected; --debug shows where
    2    the command line is wrong
    3    the rows or a parameter cannot be used (InputError)
    4    the work does not fit the memory or the disk (PlanError)
    5    the run directory cannot be used (RunError)
    6    the store refused to read or write (StorageError)
    130  interrupted; with --out, the same command goes on where it stopped

Results go to stdout, everything else to stderr. A command imports what it needs when it runs, so that ``--help`` is
quick.
"""

import inspect
import json
import os
import sys
from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from typing import Annotated, Any, Literal, NamedTuple

import typer

from bigsmic.errors import InputError, PlanError, RunError, StorageError

UNEXPECTED, INTERRUPTED = 1, 130
EXIT_CODES = {InputError: 3, PlanError: 4, RunError: 5, StorageError: 6}
EPILOG = (
    "[bold]Exit codes[/bold]  0 done, 1 unexpected, 2 wrong command line, 3 bad input, 4 does not fit memory or disk, "
    "5 run directory, 6 storage, 130 interrupted: with --out, the same command goes on where it stopped."
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
    try:
        app(prog_name="bigsmic")
    except SystemExit as end:
        if end.code == INTERRUPTED:
            # Zarr's event loop may be in the middle of a call, and would complain of it when the interpreter ends
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(INTERRUPTED)
        raise


# ------------------------------------------------------------------------------------------------- options


class Flag(NamedTuple):
    """An option that is handed on, if it is given, under its own name.

    Parameters
    ----------
    name : str
        Of the parameter; of the option too, with hyphens.
    kind : type
        Of what is typed.
    help : str
    convert : callable, optional
        From what is typed to the parameter; ValueError where it cannot.
    option : str, optional
        The option's name where it is another.
    """

    name: str
    kind: Any
    help: str
    convert: Callable[[Any], Any] = lambda value: value
    option: str | None = None

    @property
    def spelling(self):
        """The option as it is typed."""
        return self.option or "--" + self.name.replace("_", "-")

    def parameter(self, panel):
        """The option as a parameter of a function that typer reads."""
        kind, default = (bool, False) if self.kind is bool else (self.kind | None, None)
        metavar = "<str>.." if self.kind == list[str] else None
        option = typer.Option(self.spelling, help=self.help, rich_help_panel=panel, metavar=metavar)
        return inspect.Parameter(
            self.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option]
        )


def _integers(texts):
    return tuple(int(part) for text in texts for part in text.split(","))


def _windows(texts):
    return tuple(_numbers(text) for text in texts)


def _numbers(text):
    return tuple(float(part) for part in text.split(","))


def _named_values(texts):
    """``key=value`` with a value that may be JSON: file systems want booleans, numbers and dicts too."""
    named = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"{text!r} is not of the form key=value")
        try:
            named[key] = json.loads(value)
        except json.JSONDecodeError:
            named[key] = value
    return named


SWITCH = {"on": True, "off": False, "auto": "auto"}
READING = (
    Flag("component", str, "Array within a Zarr group."),
    Flag("storage_options", list[str], "key=value for the file system of a URL; may be repeated.", _named_values,
         "--storage-option"),
)  # fmt: skip
ROWS = (*READING, Flag("missing_chunks", Literal["error", "fill"], "An absent chunk is an error, or its fill value."))
MODEL = (
    Flag("t", list[str], "Neighbour numbers to choose among, such as 3,5,7,10.", _integers),
    Flag("kernel", Literal["auto", "local_scaling", "normalized"], "As in SMIC, normalised, or both."),
    Flag("assignment", Literal["merge", "rotation", "paper", "auto"], "How eigenvectors become labels."),
    Flag("selection", Literal["consensus", "lsmi", "medoid"], "What is returned of several labelings."),
    Flag("rotation", Literal["auto", "on", "off"], "Short for --assignment auto, rotation and paper.", SWITCH.get),
    Flag("widths", list[str], "Columns in multiples of c, such as 1.5,2,2.5; may be repeated.", _windows),
    Flag("repair", Literal["on", "off"], "Connect the components of the neighbour graph.", SWITCH.get),
    Flag("prior", str, "Share of each cluster, such as .5,.3,.2; equal by default.", _numbers),
    Flag("preset", Literal["paper"], "As published."),
    Flag("scale", Literal["standard", "variance", "none"], "What centred columns are divided by; standard by default.",
         lambda text: None if text == "none" else text),
    Flag("bandwidth", float, "2, the default, as in SMIC; 1 as in self-tuning spectral clustering."),
    Flag("seed", int, "0 by default; equal seeds give equal labels."),
    Flag("neighbors", Literal["auto", "exact", "pynndescent"], "How neighbours are searched."),
    Flag("n_neighbors", int, "Neighbours to find for each row."),
    Flag("n_centers", int, "Kernel centres of LSMI."),
    Flag("lsmi_rows", str, "Rows that LSMI is estimated from: a number or all.",
         lambda text: None if text == "all" else int(text)),
)  # fmt: skip
RESOURCES = (
    Flag("memory_limit", str, "What the process may use, such as 1GiB; three quarters of the machine by default."),
    Flag("n_threads", int, "Tasks at once; all processors by default.", option="--threads"),
)
FIT = {"Rows": ROWS, "Model": MODEL, "Resources": RESOURCES}
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
            given = {flag.name: _converted(flag, value) for flag, value in typed.items() if value is not None}
            with _screen(**shown) as screen:
                function(screen, **values, **given)

        added = [flag.parameter(name) for name, panel in {**panels, "Output": OUTPUT}.items() for flag in panel]
        own = list(inspect.signature(function).parameters.values())[1:-1]
        own = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
        run.__signature__ = inspect.Signature(own + added)  # type: ignore[attr-defined]
        run.__doc__ = function.__doc__
        app.command(function.__name__, epilog=EPILOG)(run)
        return function

    return register


def _converted(flag, typed):
    try:
        return flag.convert(typed)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=repr(flag.spelling)) from None


@contextmanager
def _screen(json, quiet, debug):
    """A screen; whatever goes wrong is said on it and becomes the exit code."""
    from bigsmic.screen import Screen

    screen = Screen(json, quiet, debug)
    try:
        with screen.warnings_in_one_line():
            yield screen
    except (typer.Exit, BrokenPipeError):
        raise
    except KeyboardInterrupt as error:
        screen.fail(error, "interrupted; with --out, the same command goes on where it stopped", INTERRUPTED)
        raise typer.Exit(INTERRUPTED) from None
    except Exception as error:
        code = next((code for kind, code in EXIT_CODES.items() if isinstance(error, kind)), UNEXPECTED)
        hint = "" if code != UNEXPECTED or debug else " (--debug shows where)"
        screen.fail(error, f"{'' if code != UNEXPECTED else type(error).__name__ + ': '}{error}{hint}", code)
        raise typer.Exit(code) from None


def _show_version(wanted):
    if wanted:
        from bigsmic import __version__

        typer.echo(f"bigsmic {__version__}")
        raise typer.Exit


@app.callback()
def _bigsmic(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
):
    pass


# ------------------------------------------------------------------------------------------------ commands

Archive = Annotated[str, typer.Argument(help="Path or URL of a Zarr array, or of a group with --component.")]
Clusters = Annotated[int, typer.Option("-c", "--clusters", help="Number of clusters.")]


@command(FIT)
def fit(
    screen,
    archive: Archive,
    c: Clusters,
    out: Annotated[str, typer.Option("-o", "--out", help="Run directory: a path or URL.")],
    **given,
):
    """Cluster the rows of ARCHIVE; the same command again goes on where it stopped."""
    from bigsmic import pages

    result = _fit(screen, archive, c, out, given)
    screen.write(pages.fit_document(result))
    screen.say(pages.fit_page(result))


def _fit(screen, archive, c, out, given):
    from bigsmic import fit

    with screen.progress() as progress:
        return fit(archive, c, out=out, progress=progress, **given)


@command({"Rows": READING, "Resources": RESOURCES[1:]})
def predict(
    screen,
    run: Annotated[str, typer.Argument(help="Run directory of a finished fit.")],
    rows: Annotated[str, typer.Argument(help="Path or URL of a Zarr array, or of a group with --component.")],
    out: Annotated[str, typer.Option("-o", "--out", help="Zarr group for labels and posterior.")],
    **given,
):
    """Give new ROWS to the clusters of RUN."""
    from bigsmic import Result, pages

    result = Result.open(run, storage_options=given.get("storage_options"))
    labels = result.predict(rows, out=out, **given)
    document = pages.predict_document(labels, result.n_clusters, out)
    screen.write(document)
    screen.say(pages.predict_page(document))


@command(FIT)
def plan(
    screen,
    archive: Archive,
    c: Clusters,
    out: Annotated[str | None, typer.Option("-o", "--out", help="Run directory whose disk is looked at.")] = None,
    **given,
):
    """Say what a fit of ARCHIVE takes, before it runs: memory, disk and work of every stage."""
    import bigsmic
    from bigsmic import pages

    planned = bigsmic.plan(archive, c, **given)
    screen.say(pages.plan_page(planned))
    pages.refuse_full_disk(planned, out)
    screen.write(pages.plan_document(planned))


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
    from tempfile import TemporaryDirectory

    from bigsmic import pages
    from bigsmic.simulate import TetrodeSimulator

    simulator = TetrodeSimulator(n_rows=spikes, n_units=units, seed=seed)
    with nullcontext(out) if out else TemporaryDirectory(prefix="bigsmic-demo-") as folder:
        screen.say(pages.demo_opening(simulator, folder))
        document = _demonstrate(screen, simulator, folder, given)
        screen.write(document)
        screen.say(pages.demo_page(document, kept=bool(out)))


def _demonstrate(screen, simulator, folder, given):
    """Simulate, fit, compare; what came out, as a JSON-like dict."""
    import time

    from bigsmic import demo, pages
    from bigsmic.memory import peak_memory

    with screen.progress() as progress:
        archive = demo.write_archive(folder, simulator, progress)
    start = time.perf_counter()
    run = f"{folder}/run.zarr"
    result = _fit(screen, archive, simulator.n_units, run, {"component": "X", **given})
    costs = {"seconds": time.perf_counter() - start, "peak_bytes": peak_memory()}
    found = demo.compare(archive, result)
    return {"folder": str(folder), "rows": simulator.n_rows} | found | costs | {"fit": pages.fit_document(result)}
