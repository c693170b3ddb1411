"""A TOML file that is validated key by key; errors have the line and the remedy."""

import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

from bigsmic.errors import InputError
from bigsmic.nightly.wording import by_keys

Check = Callable[[Any], Any]
"""Converts a TOML value to that of a key; ValueError names valid values."""

Elsewhere = Callable[[str, Collection[str]], str]

_TABLE = re.compile(r"\s*\[([^\[\]]+)\]")
_KEY = re.compile(r"\s*([\w.\"'-]+)\s*=")


class TOMLFile:
    """A file and its tables.

    Parameters
    ----------
    path : str
    text : str
    elsewhere : callable, optional
        ``elsewhere(name, known)`` returns what to write instead of a key that a table with other keys lacks; empty if
        there is no such key in other tables either.

    Raises
    ------
    InputError
        The text is not valid TOML.
    """

    def __init__(self, path: str, text: str, elsewhere: Elsewhere = lambda name, known: "") -> None:
        self.path, self.text, self._elsewhere = path, text, elsewhere
        try:
            self.tables: dict[str, Any] = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise InputError(f"{path}: not valid TOML: {error}; see https://toml.io") from None

    @classmethod
    def read(cls, path: str, elsewhere: Elsewhere = lambda name, known: "") -> "TOMLFile":
        """Read a file."""
        try:
            with open(path, encoding="utf-8") as opened:
                return cls(path, opened.read(), elsewhere)
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{path}: cannot be read ({error}); give a job file, see the guide") from None

    def line(self, *key: str) -> int | None:
        """Number of the first line of a key, or of its table."""
        found, table = None, ""
        for number, text in enumerate(self.text.splitlines(), 1):
            if opened := _TABLE.match(text):
                table = _plain(opened[1])
                found = number if table == key[0] else found
            elif named := _KEY.match(text):
                name = _joined(table, _plain(named[1]))
                if name == ".".join(key):
                    return number
                found = number if name == key[0] else found  # a table in one line
        return found

    def refuse(self, key: tuple[str, ...], why: str) -> InputError:
        """The error for a key, with its line."""
        line = self.line(*key)
        where = f"{self.path}, line {line}" if line else self.path
        return InputError(f"{where}: {'.'.join(key)}: {why}")

    def values(self, table: str | None, checks: Mapping[str, Check], others: bool = False) -> dict[str, Any]:
        """Validated values of the keys of a table.

        Parameters
        ----------
        table : str or None
            None: the top of the file.
        checks : dict of str to Check
            By key.
        others : bool
            Whether the table has other keys too, which are left unchecked.

        Returns
        -------
        values : dict
            Of the keys that are there.

        Raises
        ------
        InputError
        """
        found = self.tables if table is None else self.tables.get(table, {})
        lead = () if table is None else (table,)
        if not isinstance(found, dict):
            raise self.refuse(lead, f"got {found!r}; write a table, [{table}]")
        values = {}
        for name, value in found.items():
            if name in checks:
                values[name] = self._checked((*lead, name), checks[name], value)
            elif not others:
                raise self.refuse((*lead, name), f"unknown key; {self._meant(name, checks)}")
        return values

    def _meant(self, name: str, known: Collection[str]) -> str:
        similar = get_close_matches(name, list(known), n=1)
        suggested = f"did you mean {similar[0]}?" if similar else f"use {', '.join(known)}"
        return self._elsewhere(name, known) or suggested

    @contextmanager
    def blaming(self, table: str, names: Collection[str]) -> Iterator[None]:
        """Refuse, with its line, the key of a table that an error of the ``with`` block names first."""
        try:
            yield
        except InputError as error:
            message = str(error)
            found = [re.search(rf"(?:\A{name}(?=: )|(?<!\S){name}(?==))", message) for name in names]
            first = min((match for match in found if match), key=lambda match: match.start(), default=None)
            key = (table,) if first is None else (table, first[0])
            raise self.refuse(key, by_keys(message.removeprefix(f"{key[-1]}: "))) from None

    def _checked(self, key: tuple[str, ...], check: Check, value: Any) -> Any:
        try:
            return check(value)
        except ValueError as error:
            raise self.refuse(key, f"got {value!r}; {error}") from None


def _plain(text: str) -> str:
    return re.sub(r"[\s\"']", "", text)


def _joined(table: str, key: str) -> str:
    return f"{table}.{key}" if table else key


# -- checks


def text(value: Any) -> str:
    """A text that is not empty."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError("write a text in quotes")
    return value


def texts(value: Any) -> tuple[str, ...]:
    """A text, or a list of texts."""
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or not found or not all(isinstance(item, str) for item in found):
        raise ValueError("write a list of texts")
    return tuple(found)


def integer(least: int) -> Check:
    """An integer, and at least `least`."""

    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"write an integer, {least} or more")
        return value

    return check


def positive(value: Any) -> float:
    """A number above 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise ValueError("write a number above 0")
    return float(value)


def switch(value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise ValueError("write true or false")
    return value
