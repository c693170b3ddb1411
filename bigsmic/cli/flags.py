"""An option of the command line, and its declaration to typer."""

import inspect
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import typer


class Flag(NamedTuple):
    """An option that is passed on, if it is given, under its own name.

    Parameters
    ----------
    name : str
        Name of the parameter; with hyphens, also that of the option.
    kind : type
        Type of the typed value.
    help : str
    convert : callable, optional
        Converts the typed value to that of the parameter; raises ValueError if it cannot.
    option : str, optional
        Name of the option, if it differs from that of the parameter.
    by_method : bool
        Whether `convert` also takes the method, as the conversion may depend on it.
    complete : callable, optional
        ``complete()`` returns words for shell completion, where `kind` does not list them.
    """

    name: str
    kind: Any
    help: str
    convert: Callable[..., Any] = lambda value: value
    option: str | None = None
    by_method: bool = False
    complete: Callable[[], Any] | None = None

    @property
    def spelling(self) -> str:
        """The option as it is typed."""
        return self.option or "--" + self.name.replace("_", "-")

    def value(self, typed: Any, method: str | None = None) -> Any:
        """The value of the parameter; ValueError if the typed value cannot be converted."""
        return self.convert(typed, method) if self.by_method else self.convert(typed)

    def parameter(self, panel: str) -> Any:
        """The option as a parameter of a function that typer reads."""
        kind, default = (bool, False) if self.kind is bool else (self.kind | None, None)
        metavar = "<str>.." if self.kind == list[str] else None
        short = [f"-{self.name}"] if len(self.name) == 1 else []
        option = typer.Option(
            self.spelling,
            *short,
            help=self.help,
            rich_help_panel=panel,
            metavar=metavar,
            autocompletion=self.complete and self._offered,
        )
        return inspect.Parameter(
            self.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option]
        )

    def _offered(self, incomplete: str) -> Any:
        """Words that complete what was typed so far."""
        return [word for word in self.complete() if word.startswith(incomplete)] if self.complete else []
