"""Base class of the settings of methods."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, ClassVar, Self

from bigsmic.settings.options import Option, options_of


class MethodSettings:
    """Settings of a method; base of frozen dataclasses, one for each method.

    Fields declared by :func:`bigsmic.settings.option` are options of :func:`bigsmic.fit` by the same names, and of the
    command line. Fields have JSON-like values; one of them is ``n_clusters``.

    Attributes
    ----------
    method : str
        Name of the method.
    home : str, optional
        Module that has the rest of the method; by default the one that defines the class. It is not inherited.
    shorthands : dict of str to Option
        Options that are not fields, because fields follow from them; arguments of :meth:`of`.
    renamed : dict of str to str
        Replacements of former options, for the error message.
    side_inputs : dict of str to Option
        Options that are auxiliary per-row inputs, such as known labels.
    numbered_by_labels : bool
        Whether ``labels`` among these determine the numbers of the clusters, so that ``like=`` cannot.
    scale : str or None
        Scaling of the columns; declared by methods that take rows.
    """

    method: ClassVar[str]
    home: ClassVar[str | None] = None
    shorthands: ClassVar[Mapping[str, Option]] = {}
    renamed: ClassVar[Mapping[str, str]] = {}
    side_inputs: ClassVar[Mapping[str, Option]] = {}
    numbered_by_labels: ClassVar[bool] = True

    scale: str | None = None

    def __post_init__(self) -> None:
        for name, declared in options_of(self).items():
            declared.check(name, getattr(self, name))

    @classmethod
    def of(cls, c: Any, **given: Any) -> Self:
        """Settings for `c` clusters and the caller's options."""
        return cls(n_clusters=c, **given)  # type: ignore[call-arg]

    @classmethod
    def options(cls) -> dict[str, Option]:
        """Options of the method, without `side_inputs`."""
        return {**options_of(cls), **cls.shorthands}

    @classmethod
    def stored(cls, stored: Mapping[str, Any], kernel: Callable[..., Any] | None = None) -> Self:
        """Settings from their stored identity; `kernel` is the function for a stored name."""
        stored = {key: tuple(v) if isinstance(v, list) else v for key, v in stored.items() if key != "method"}
        if str(stored.get("kernel")).startswith("callable"):
            stored["kernel"] = kernel if kernel is not None else "callable"
        return cls(**stored)

    @property
    def precomputed(self) -> bool:
        """Whether the input is a graph, and not features."""
        return False

    def n_axes(self, d: int) -> int:
        """Number of principal components that take the place of d columns; 0 if none do."""
        return 0

    def n_features(self, d: int) -> int:
        """Number of columns of the rows that stages after the scan read: d, or of principal components."""
        return self.n_axes(d) or d

    @property
    def trims(self) -> bool:
        """Whether outlying rows are left out of the kernel."""
        return False

    @property
    def may_trim(self) -> bool:
        """Whether outlying rows are left out of the kernel if clusters are pieces of curves."""
        return False

    @property
    def finds_noise(self) -> bool:
        """Whether rows in no cluster are detected and get the label -1."""
        return False

    @property
    def link_weights(self) -> tuple[Any, ...]:
        """Strengths of links to choose from; None without links."""
        return (None,)

    @property
    def block_columns(self) -> int:
        """Columns for which blocks of input rows are sized, if more than the input has."""
        return 1

    @property
    def undecided(self) -> bool:
        """Whether a fit leaves the number of clusters open."""
        return False

    @property
    def shares_lsmi_width(self) -> bool:
        """Whether candidates are compared by LSMI with one width and ridge, those of their medoid labeling."""
        return False

    @property
    def number_given(self) -> bool:
        """Whether the caller gave the number of clusters, and the fit did not find it."""
        return not self.undecided and getattr(self, "n_clusters", None) is not None

    def check_shape(self, n: int, d: int) -> None:
        """Refuse an input of n rows and d columns that the method cannot read.

        Raises
        ------
        InputError
        """

    def found_in(self, summary: Mapping[str, Any]) -> Self:
        """The settings with the values that they left open and the fit found, from the summary of its run."""
        return self

    def fitted_to(self, n: int) -> tuple[Self, dict[str, str]]:
        """Reduce parameters to what `n` rows allow: return the settings, and a dict of the reductions."""
        return self, {}

    def identity(self) -> dict[str, Any]:
        """JSON-like form by which settings are compared on resume."""
        values: dict[str, Any] = asdict(self)  # type: ignore[call-overload]
        return {"method": self.method} | values


class _Unset:
    def __repr__(self) -> str:
        return "<default>"


UNSET: Any = _Unset()
"""Default in signatures of options that follow from others if left out."""
