"""Declaration of a method's options: each once, as a field of its settings, with its help, kind and limits.

The command line, the documentation of the estimators' constructors, and that of :func:`bigsmic.fit` are generated from
these declarations. This module imports nothing heavy, because ``--help`` reads it.
"""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, Literal, NamedTuple

from numpy.typing import ArrayLike

from bigsmic.validation import check_at_least_zero, check_choice, check_integer, check_positive

KEY = "option"
"""Key of the Option in the metadata of a field."""
MARK = "{options}"
"""Line of a docstring that is replaced by descriptions of the options."""
_LINE = 116
_WORDS = {None: "none", True: "on", False: "off"}


class Kind(NamedTuple):
    """Kind of an option's values.

    Parameters
    ----------
    text : str
        Type for numpydoc.
    annotation : object
        Type for signatures.
    typed : type
        Type that the command line parses: int, float, str, or list[str] if the option may be repeated.
    convert : callable
        Converts the parsed value; raises ValueError if it cannot.
    check : callable, optional
        ``check(name, value, least)`` raises InputError. By default the settings check the value themselves.
    """

    text: str
    annotation: Any
    typed: Any
    convert: Callable[[Any], Any]
    check: Callable[..., None] | None = None


def _integers(texts: Sequence[str]) -> tuple[int, ...]:
    return tuple(int(part) for text in texts for part in text.split(","))


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(float(part) for part in text.split(","))


def _number_or_word(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _count_or_all(text: str) -> int | None:
    if text == "all":
        return None
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"got {text!r}; use a whole number, or all, which is None in Python") from None


INTEGER = Kind("int", int, int, int, check_integer)
POSITIVE = Kind("float", float, float, float, lambda name, value, least: check_positive(name, value))
FROM_ZERO = Kind("float", float, float, float, lambda name, value, least: check_at_least_zero(name, value))
NUMBER_OR_WORD = Kind("float or str", float | str, str, _number_or_word)
COUNT_OR_ALL = Kind("int or None", int | None, str, _count_or_all, check_integer)
INTEGERS = Kind("int or sequence of int", int | Sequence[int], list[str], _integers)
NUMBERS = Kind("float or sequence of float", float | Sequence[float], str, _numbers)
SETS_OF_NUMBERS = Kind(
    "sequence of float, or of several such",
    float | Sequence[float] | Sequence[Sequence[float]],
    list[str],
    lambda texts: tuple(_numbers(text) for text in texts),
)
SHARES = Kind("array_like of float, shape (c,)", ArrayLike, str, _numbers)
SHARES_OR_WORD = Kind(
    'array_like of float, shape (n_clusters,), or "power"',
    ArrayLike | str,
    str,
    lambda text: text if text.isalpha() else _numbers(text),
)
FUNCTION = Kind("str or callable", str | Callable[..., Any], str, str)
ARRAY = Kind("array_like, Zarr array or path", Any, str, str)


@dataclass(frozen=True)
class Option:
    """Declaration of an option; its name and default are those of the field.

    Parameters
    ----------
    help : str
        Sentences; the command line shows the first.
    kind : Kind
    choices : tuple, optional
        All valid values.
    least : int, optional
        Least value of an integer.
    text : str, optional
        Type for numpydoc, if kind and choices do not determine it.
    follows : bool
        Whether the value follows from other options if this one is left out.
    typed : bool
        Whether the command line has the option.
    optional : bool
        Whether None is a valid value.
    """

    help: str
    kind: Kind
    choices: tuple[Any, ...] | None = None
    least: int | None = None
    text: str | None = None
    follows: bool = False
    typed: bool = True
    optional: bool = False

    @property
    def summary(self) -> str:
        """First sentence of the help, without markup."""
        first, _, _ = self.help.partition(". ")
        return first.replace("``", "").rstrip(".") + "."

    @property
    def annotation(self) -> Any:
        """Type of the values, for signatures."""
        kind = self.kind.annotation if self.choices is None else Literal[self.choices]
        return kind | None if self.optional else kind

    def check(self, name: str, value: Any) -> None:
        """Refuse a value that the declaration excludes.

        Raises
        ------
        InputError
        """
        if value is None and self.optional:
            return
        if self.choices is not None:
            check_choice(name, value, self.choices)
        elif self.kind.check is not None:
            self.kind.check(name, value, self.least)

    def described(self, name: str) -> str:
        """The option as an entry of a numpydoc section, without indent."""
        text = self.text or (self.kind.text if self.choices is None else _set_of(self.choices))
        said = text.endswith("None") or None in (self.choices or ())
        optional = ", optional" if (self.optional or self.follows) and not said else ""
        lines = textwrap.wrap(self.help, _LINE - 4, break_on_hyphens=False)
        return "\n".join([f"{name} : {text}{optional}", *(f"    {line}" for line in lines)])


def _set_of(choices: tuple[Any, ...]) -> str:
    if choices == (True, False):
        return "bool"
    return "{" + ", ".join(f'"{c}"' if isinstance(c, str) else repr(c) for c in choices) + "}"


def _kind_of(choices: tuple[Any, ...], optional: bool) -> Kind:
    """Kind of an option with listed values; on the command line, None is expressed by leaving it out."""
    values = {_WORDS.get(value, value): value for value in choices if not (value is None and optional)}
    typed: Any = Literal[tuple(values)]
    return Kind("", None, typed, values.__getitem__)


def declared(kind: Kind | None = None, *, help: str, optional: bool = False, **more: Any) -> Option:
    """Declare an option that is not a field of the settings: see :func:`option` for the parameters."""
    choices = more.get("choices")
    if kind is None:
        if choices is None:
            raise TypeError("option: give kind= or choices=")
        kind = _kind_of(choices, optional)
    return Option(" ".join(help.split()), kind, optional=optional, **more)


def option(default: Any = MISSING, kind: Kind | None = None, *, help: str, **more: Any) -> Any:
    """Field of a settings dataclass that is an option of its method.

    Parameters
    ----------
    default : object
        If it is None, None is a valid value.
    kind : Kind, optional
        Not with `choices`.
    help : str
        Sentences on what the option does; the command line shows the first one.
    **more
        ``choices``, ``least``, ``text``, ``follows``, ``typed`` and ``optional`` of :class:`Option`.

    Returns
    -------
    field : dataclasses.Field

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Settings:
    ...     solver: str = option("fast", choices=("fast", "exact"), help="How it is solved. Exact takes an hour.")
    >>> print(options_of(Settings)["solver"].described("solver"))
    solver : {"fast", "exact"}
        How it is solved. Exact takes an hour.
    """
    optional = more.pop("optional", default is None)
    return field(default=default, metadata={KEY: declared(kind, help=help, optional=optional, **more)})


def options_of(settings: Any) -> dict[str, Option]:
    """Declared fields of a settings dataclass by name; other fields are not options."""
    return {f.name: f.metadata[KEY] for f in fields(settings) if KEY in f.metadata}


def defaults_of(settings: Any) -> dict[str, Any]:
    """Defaults of the declared fields; MISSING for those without one."""
    found: Sequence[Field[Any]] = fields(settings)
    return {f.name: f.default for f in found if KEY in f.metadata}


def documented(doc: str, options: Mapping[str, Option], more: str = "") -> str:
    """Docstring in which the mark is replaced by entries of options and `more`, at the mark's indent."""
    entries = "\n".join([option.described(name) for name, option in options.items()]) + more.rstrip()
    lines = doc.splitlines()
    return "\n".join(textwrap.indent(entries, line[: -len(MARK)]) if line.strip() == MARK else line for line in lines)
