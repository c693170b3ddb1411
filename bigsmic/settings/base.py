"""What the settings of every method answer."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, ClassVar, Self

from bigsmic.settings.options import Option, options_of


class MethodSettings:
    """What the settings of every method answer; base of frozen dataclasses, one for each method.

    Fields declared by :func:`bigsmic.settings.option` are options of :func:`bigsmic.fit` by the same names, and of the
    command line. Fields hold what JSON can; one of them is ``n_clusters``.

    Attributes
    ----------
    method : str
        Name of the method.
    home : str, optional
        Module that has the rest of the method; by default the one that defines the class. It is not inherited.
    shorthands : dict of str to Option
        Options that are no fields, because fields follow from them: :meth:`of` takes them.
    renamed : dict of str to str
        What takes the place of options that there were, as refusals of them say.
    side_inputs : dict of str to Option
        Options that are arrays beside the rows, such as labels of some of them.
    scale : str or None
        What columns are divided by; methods of rows declare it.
    """

    method: ClassVar[str]
    home: ClassVar[str | None] = None
    shorthands: ClassVar[Mapping[str, Option]] = {}
    renamed: ClassVar[Mapping[str, str]] = {}
    side_inputs: ClassVar[Mapping[str, Option]] = {}

    scale: str | None = None

    def __post_init__(self) -> None:
        for name, declared in options_of(self).items():
            declared.check(name, getattr(self, name))

    @classmethod
    def of(cls, c: Any, **given: Any) -> Self:
        """Settings for `c` clusters, and what the caller gave."""
        return cls(n_clusters=c, **given)  # type: ignore[call-arg]

    @classmethod
    def options(cls) -> dict[str, Option]:
        """Options that the method takes, beside the arrays of `side_inputs`."""
        return {**options_of(cls), **cls.shorthands}

    @classmethod
    def stored(cls, stored: Mapping[str, Any], kernel: Callable[..., Any] | None = None) -> Self:
        """Settings from their identity; `kernel` is the function that a stored name stands for."""
        stored = {key: tuple(v) if isinstance(v, list) else v for key, v in stored.items() if key != "method"}
        if str(stored.get("kernel")).startswith("callable"):
            stored["kernel"] = kernel if kernel is not None else "callable"
        return cls(**stored)

    @property
    def precomputed(self) -> bool:
        """Whether the input is a graph, and not features."""
        return False

    @property
    def trims(self) -> bool:
        """Whether rows that lie far out are left out of the kernel."""
        return False

    @property
    def finds_noise(self) -> bool:
        """Whether rows that lie in no cluster are looked for: their label is -1."""
        return False

    @property
    def block_columns(self) -> int:
        """Columns that blocks of input rows are cut for, where they are more than the input has."""
        return 1

    @property
    def undecided(self) -> bool:
        """Whether a fit leaves the number of clusters open."""
        return False

    @property
    def number_given(self) -> bool:
        """Whether the caller gave the number of clusters, and the fit did not find it."""
        return not self.undecided and getattr(self, "n_clusters", None) is not None

    def found_in(self, summary: Mapping[str, Any]) -> Self:
        """The settings with what the fit found that they left open, from the summary of its run."""
        return self

    def fitted_to(self, n: int) -> tuple[Self, dict[str, str]]:
        """Cut what `n` rows do not allow: settings, and a dict of what was cut."""
        return self, {}

    def identity(self) -> dict[str, Any]:
        """JSON-like form in which two fits are told apart."""
        values: dict[str, Any] = asdict(self)  # type: ignore[call-overload]
        return {"method": self.method} | values


class _Unset:
    def __repr__(self) -> str:
        return "<default>"


UNSET: Any = _Unset()
"""Stands in signatures for what follows from other options where it is left out."""
