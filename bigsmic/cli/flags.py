"""An option of the command line, as it is declared to typer."""

import inspect
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import typer


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
    by_method : bool
        Whether `convert` asks for the method too, to which what is typed may mean another thing.
    complete : callable, optional
        ``complete()`` returns words that a shell offers, where `kind` does not say them.
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
        """The parameter that was typed; ValueError where it cannot be one."""
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
        """Words that a shell offers for what was typed so far."""
        return [word for word in self.complete() if word.startswith(incomplete)] if self.complete else []
