"""Options of methods on the command line, generated from the methods' settings.

Methods that have an option of the same name share it: it accepts the values of any of them, and a value is converted as
the requested method declares it.
"""

from functools import partial
from typing import Any, Literal, get_args, get_origin

from bigsmic import registry
from bigsmic.cli.flags import Flag
from bigsmic.settings import Option


def method_panels(*first: Flag) -> dict[str, tuple[Flag, ...]]:
    """Options of all methods, in the panel of the first method that has them; those of `first` come first."""
    declared = _declared()
    shown: dict[str, tuple[Flag, ...]] = {"Model": first}
    for name, of_methods in declared.items():
        method = next(iter(of_methods))
        panel = "Model" if method == registry.DEFAULT else f"Method {method}"
        shown[panel] = (*shown.get(panel, ()), flag_of(name, of_methods))
    return shown


def _declared() -> dict[str, dict[str, Option]]:
    """Declarations of all options, by option, then by method."""
    found: dict[str, dict[str, Option]] = {}
    for method in registry.loadable():
        for name, option in registry.options(method).items():
            if option.typed:
                found.setdefault(name, {})[method] = option
    return found


def flag_of(name: str, of_methods: dict[str, Option]) -> Flag:
    """One option for the declarations of several methods under one name."""
    kinds = [option.kind.typed for option in of_methods.values()]
    convert = partial(_converted, of_methods=of_methods)
    help = _help_of(list(of_methods.items())).replace("[", r"\[")  # escaped, as rich would take it for markup
    return Flag(name, _common(kinds), help, convert, by_method=True)


def _common(kinds: list[Any]) -> Any:
    """The kind that the command line parses for all of these kinds."""
    if all(get_origin(kind) is Literal for kind in kinds):
        return Literal[tuple(dict.fromkeys(word for kind in kinds for word in get_args(kind)))]
    if all(kind == kinds[0] for kind in kinds):
        return kinds[0]
    return list[str] if list[str] in kinds else str


def _converted(typed: Any, method: str | None, of_methods: dict[str, Option]) -> Any:
    """The typed value, converted as the method declares it, or the first method if this one lacks the option."""
    kind = of_methods.get(method or registry.DEFAULT, next(iter(of_methods.values()))).kind
    if isinstance(typed, list) and kind.typed != list[str]:
        if len(typed) > 1:
            raise ValueError(f"got {len(typed)} of them; give one")
        typed = typed[0]
    if kind.typed in (int, float):
        typed = kind.typed(typed)
    if get_origin(kind.typed) is Literal and typed not in get_args(kind.typed):
        return typed  # the method refuses it with a remedy
    return kind.convert(typed)


def _help_of(declared: list[tuple[str, Option]]) -> str:
    """First sentences of the help, with the names of methods where these differ."""
    said: dict[tuple[str, str], list[str]] = {}
    differ = len({option.kind.typed for _, option in declared}) > 1
    for method, option in declared:
        words = ", ".join(get_args(option.kind.typed)) if differ and get_origin(option.kind.typed) is Literal else ""
        said.setdefault((option.summary.rstrip("."), words), []).append(method)
    if len(said) == 1:
        return declared[0][1].summary
    return "; ".join(
        f"{sentence} ({', '.join(methods)}{': ' * bool(words)}{words})" for (sentence, words), methods in said.items()
    )
