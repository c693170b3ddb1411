"""The application behind the command ``bigsmic``: how commands are registered, and how they end.

A command says what it has to say on a :class:`~bigsmic.cli.console.Screen`; whatever goes wrong becomes its exit code.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from bigsmic.cli.flags import Flag
from bigsmic.cli.options import as_typed, storage_options
from bigsmic.errors import ClusterError, InputError, PlanError, RunError, RunLockedError, StorageError
from bigsmic.types import Floats

UNEXPECTED, INTERRUPTED = 1, 130
STOPPED = "interrupted; with --out, the same command goes on where it stopped"
EXIT_CODES = {InputError: 3, MemoryError: 4, RunLockedError: 75, RunError: 5, StorageError: 6, ClusterError: 7}
"""The first that fits counts. 75 is what sysexits.h has for failures that pass: schedulers may try again."""
EPILOG = (
    "[bold]Exit codes[/bold]  0 done, 1 unexpected, 2 wrong command line, 3 bad input, 4 does not fit memory or disk, "
    "5 run directory, 6 storage, 7 cluster, 9 refit recommended (update --fail-on-drift), 75 run in use, "
    "130 interrupted: with --out, the same command goes on where it stopped."
)

app = typer.Typer(
    help="Clusters of rows on disk: Zarr archives larger than memory in, labels and how sure they are out.",
    epilog=f"New here? Try [bold]bigsmic demo[/bold].\n\n{EPILOG}",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: int) -> None:
    if wanted:
        from bigsmic.version import __version__

        typer.echo(f"bigsmic {__version__}")
        raise typer.Exit


@app.callback()
def _bigsmic(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


# -- commands

OUTPUT = (
    Flag("json", bool, "Print one JSON document, nothing else."),
    Flag("quiet", bool, "Neither progress nor tables."),
    Flag("debug", bool, "Show where an error comes from."),
)


def command(panels: dict[str, Any], section: str | None = None) -> Callable[..., Any]:
    """Register a function as a command that has further options.

    Parameters
    ----------
    panels : dict of str to tuple of Flag
        The options, by the panel of the help that shows them. The function is called with a Screen, its own
        parameters, and those of the options that were given.
    section : str, optional
        Panel of the help that lists the command, other than the first.
    """
    flags = [flag for panel in panels.values() for flag in panel]

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        def run(**values: Floats) -> None:
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
        app.command(function.__name__, epilog=EPILOG, rich_help_panel=section)(run)
        return function

    return register


def _converted(flag: Any, typed: Any, method: Any) -> Any:
    try:
        return flag.value(typed, method)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=repr(flag.spelling)) from None


def _with_storage_options(given: Any) -> Any:
    """The same with the storage options of all places, if there are any."""
    given = dict(given)
    try:
        found = storage_options(given.pop("storage_options_file", None), given.pop("storage_options", {}))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="storage options") from None
    return given | {"storage_options": found} if found else given


@contextmanager
def _screen(json: Any, quiet: Any, debug: Any, translate: Callable[..., str]) -> Iterator[Any]:
    """A screen on which an error is shown, and from which the exit code follows."""
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


def _refuse_few_addresses() -> None:
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < LEAST_ADDRESSES:
        raise PlanError(
            f"memory: `ulimit -v` allows this process {limit >> 20} MiB of addresses, its libraries alone take up to "
            f"{LEAST_ADDRESSES >> 20}; raise it to 2 GiB or more, and bound memory by --memory-limit"
        )
