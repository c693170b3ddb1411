"""What a Result says of its clusters' numbers and names, and of those of an earlier run."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from bigsmic.continuity import numbers
from bigsmic.continuity.counting import Labelled
from bigsmic.continuity.match import Match
from bigsmic.errors import InputError, RunError
from bigsmic.runtime.context import Context
from bigsmic.stages import naming
from bigsmic.store import CarriedRun
from bigsmic.types import StorageOptions, StrPath
from bigsmic.validation import check_integer


class NumberedViews:
    """Numbers and names of clusters, which a later fit can take over."""

    if TYPE_CHECKING:
        location: str
        settings: Any
        _run: Any

        @property
        def n_clusters(self) -> int:
            """Number of clusters."""

        @property
        def _context(self) -> Context: ...
        @classmethod
        def open(
            cls,
            run: StrPath,
            *,
            storage_options: StorageOptions = None,
            kernel: Callable[..., Any] | None = None,
            temporary: bool = False,
        ) -> Any:
            """Open a run."""

        def _refuse_undecided(self, what: str) -> None: ...

    @property
    def numbers(self) -> NDArray[np.int64]:
        """Numbers of the clusters, ascending: ndarray of int64, 0 to c - 1 but after a fit with ``like=``.

        Labels, and columns of the posterior, have these numbers. Those of clusters that have vanished are given to no
        other: their columns of the posterior are 0.
        """
        self._refuse_undecided("numbers")
        return self._labelled.numbers

    @property
    def _labelled(self) -> Labelled:
        return Labelled(self._context, self.n_clusters)

    @cached_property
    def matched(self) -> Match | None:
        """What became of the clusters of the run that ``like=`` named, a :class:`bigsmic.continuity.Match`; or None."""
        return numbers.stored(self._context)

    def match(self, previous: "StrPath | NumberedViews", *, storage_options: StorageOptions = None) -> Match:
        """Find the clusters that continue those of an earlier run.

        Where both runs are of the same rows of one archive, of which this one may have more, those are counted.
        Elsewhere each run labels up to 20,000 rows of the other one. Pairs of clusters are chosen for the largest sum
        of overlaps; a pair of overlap below one half is no continuation.

        Parameters
        ----------
        previous : str, Path or Result
            The earlier run, of rows with the same columns.
        storage_options : dict, optional
            For the file system behind a URL.

        Returns
        -------
        match : bigsmic.continuity.Match

        Raises
        ------
        InputError
            A run of other columns or without labels, or graphs of other rows.
        RunError
            `previous` is no finished run, or is damaged.
        """
        self._refuse_undecided("match")
        if isinstance(previous, NumberedViews):
            earlier = previous
        else:
            earlier = self.open(previous, storage_options=storage_options)
        earlier._refuse_undecided("match")
        return numbers.find(self._labelled, earlier._labelled)

    @property
    def names(self) -> dict[int, str]:
        """Names of clusters by number: those given here, and of the run that ``like=`` named; a new dict."""
        return naming.given(self._context)

    def set_names(self, names: Mapping[int, str | None]) -> Self:
        """Give names to clusters, which are stored in the run. A fit with ``like=`` takes them over.

        Parameters
        ----------
        names : dict of int to str
            By number; None or an empty text takes a name away. Other clusters keep theirs.

        Returns
        -------
        result : Result
            This one.

        Raises
        ------
        InputError
            A number that no cluster has, or a name that is no text of one line.
        RunError
            The run is being written, or is only in memory.
        """
        self._refuse_undecided("names")
        checked = {self._number(number): _checked(name) for number, name in names.items()}
        if isinstance(self._run, CarriedRun):
            raise RunError(f"names: {self.location} is only in memory; name clusters of the run, or of a saved copy")
        naming.write(self._context, checked)
        return self

    def _number(self, number: Any) -> int:
        check_integer("cluster", number, 0)
        if number not in self.numbers and number not in self.names:
            raise InputError(f"cluster: got {number}; this run has clusters {_listed(self.numbers)}")
        return int(number)


def _checked(name: Any) -> str:
    if name is None:
        return ""
    if not isinstance(name, str) or not name.isprintable() or len(name) > 200:
        raise InputError(f"names: got {name!r}; give a text of one line, of 200 characters at most")
    return name.strip()


def _listed(numbers: NDArray[np.int64]) -> str:
    return ", ".join(map(str, numbers.tolist()))
