"""The application behind the command ``bigsmic``: registration of commands, and their exit codes.

A command writes its output to a :class:`~bigsmic.cli.console.Screen`; the type of an error decides the exit code.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from bigsmic.cli.flags import Flag
from bigsmic.cli.options import as_typed, storage_options
from bigsmic.errors import ClusterError, InputError, PlanError, RunError, RunLockedError, StorageError

UNEXPECTED, INTERRUPTED = 1, 130
STOPPED = "interrupted; with --out, the same command resumes the work"
EXIT_CODES = {InputError: 3, MemoryError: 4, RunLockedError: 75, RunError: 5, StorageError: 6, ClusterError: 7}
"""The first match counts. 75 is the code of sysexits.h for temporary failures, after which schedulers may retry."""
EPILOG = (
    "[bold]Exit codes[/bold]  0 done, 1 unexpected, 2 wrong command line, 3 bad input, 4 does not fit memory or disk, "
    "5 run directory, 6 storage, 7 cluster, 9 refit recommended (update --fail-on-drift), 75 run in use, "
    "130 interrupted: with --out, the same command resumes the work."
)

app = typer.Typer(
    help="Cluster rows on disk: reads Zarr archives larger than memory, writes labels and how certain they are.",
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


def command(
    panels: Mapping[str, Sequence[Flag]],
    section: str | None = None,
    translate: Callable[..., str] | None = None,
    stopped: str = STOPPED,
) -> Callable[..., Any]:
    """Register a function as a command with further options.

    Parameters
    ----------
    panels : dict of str to tuple of Flag
        The options, by the panel of the help that shows them. The function is called with a Screen, its own parameters,
        and the further options that the user gave.
    section : str, optional
        Panel of the help that lists the command; the first one by default.
    translate : callable, optional
        As of a Screen; by default, options are spelled as on the command line.
    stopped : str
        What a user who interrupts the command is told.
    """
    flags = [flag for panel in panels.values() for flag in panel]
    translate = translate or (lambda message, leads: as_typed(message, flags, leads))

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        def run(**values: Any) -> None:
            shown = {flag.name: values.pop(flag.name) for flag in OUTPUT}
            typed = {flag: values.pop(flag.name) for flag in flags}
            method = next((value for flag, value in typed.items() if flag.name == "method"), None)
            given = {flag.name: _converted(flag, value, method) for flag, value in typed.items() if value is not None}
            if any(flag.name == "storage_options" for flag in flags):
                given = _with_storage_options(given)
            with _screen(**shown, translate=translate, stopped=stopped) as screen:
                function(screen, **values, **given)

        added = [flag.parameter(name) for name, panel in {**panels, "Output": OUTPUT}.items() for flag in panel]
        own = list(inspect.signature(function).parameters.values())[1:-1]
        own = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
        run.__signature__ = inspect.Signature(own + added)  # type: ignore[attr-defined]
        run.__doc__ = function.__doc__
        app.command(function.__name__, epilog=EPILOG, rich_help_panel=section)(run)
        return function

    return register


def _converted(flag: Flag, typed: Any, method: str | None) -> Any:
    try:
        return flag.value(typed, method)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=repr(flag.spelling)) from None


def _with_storage_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """The given options, with the storage options of the environment, the file and the command line merged."""
    given = dict(given)
    try:
        found = storage_options(given.pop("storage_options_file", None), given.pop("storage_options", {}))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="storage options") from None
    return given | {"storage_options": found} if found else given


@contextmanager
def _screen(json: bool, quiet: bool, debug: bool, translate: Callable[..., str], stopped: str) -> Iterator[Any]:
    """Yield a screen, show an error on it, and exit with the code of the error."""
    from bigsmic.cli.console import Screen

    screen = Screen(json, quiet, debug, translate)
    try:
        _refuse_few_addresses()
        with screen.warnings_in_one_line():
            yield screen
    except (typer.Exit, BrokenPipeError):
        raise
    except KeyboardInterrupt as error:
        screen.fail(error, stopped, INTERRUPTED)
        raise typer.Exit(INTERRUPTED) from None
    except Exception as error:
        code = next((code for kind, code in EXIT_CODES.items() if isinstance(error, kind)), UNEXPECTED)
        unexpected = code == UNEXPECTED
        hint = " (--debug shows where)" if unexpected and not debug else ""
        screen.fail(error, f"{type(error).__name__}: {error}{hint}" if unexpected else str(error), code)
        raise typer.Exit(code) from None


LEAST_ADDRESSES = 768 << 20  # for the libraries alone, which fail in many ways, aborts among them, with fewer


def _refuse_few_addresses() -> None:
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < LEAST_ADDRESSES:
        raise PlanError(
            f"memory: `ulimit -v` allows this process {limit >> 20} MiB of addresses, and its libraries alone take up "
            f"to {LEAST_ADDRESSES >> 20} MiB; raise it to 2 GiB or more, and limit memory by --memory-limit"
        )
