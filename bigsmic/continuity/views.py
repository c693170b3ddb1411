"""Numbers and names of a Result's clusters, and their match with an earlier run."""

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
    """Numbers and names of clusters, which a later fit can use."""

    if TYPE_CHECKING:
        settings: Any
        _run: Any

        @property
        def location(self) -> str:
            """The run directory."""

        @property
        def _n_columns(self) -> int:
            """Columns of the posterior."""

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
        """Numbers of the clusters, ascending: ndarray of int64, 0 to c - 1 unless the fit had ``like=``.

        Labels, and columns of the posterior, have these numbers. Numbers of vanished clusters are not used again, and
        their columns of the posterior are 0.
        """
        self._refuse_undecided("numbers")
        return self._labelled.numbers

    @property
    def _labelled(self) -> Labelled:
        return Labelled(self._context, self._n_columns)

    @cached_property
    def matched(self) -> Match | None:
        """Match with the clusters of the run given by ``like=``, a :class:`bigsmic.continuity.Match`; or None."""
        return numbers.stored(self._context)

    def match(self, previous: "StrPath | NumberedViews", *, storage_options: StorageOptions = None) -> Match:
        """Find the clusters that continue those of an earlier run.

        If this run has at least half of the rows of the earlier one, those in common are counted. Otherwise each run
        labels up to 20,000 rows of the other one. Pairs of clusters maximise the sum of overlaps; a pair of overlap
        below one half is not matched.

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
            The run has other columns or no labels, or is of a graph of other rows.
        RunError
            `previous` is not a finished run, or is damaged.
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
        """Names of clusters by number, including those from the run given by ``like=``; a new dict.

        Raises
        ------
        RunError
            The stored names are damaged.
        """
        return naming.given(self._context)

    def set_names(self, names: Mapping[int, str | None]) -> Self:
        """Name clusters. The names are stored in the run, and a fit with ``like=`` keeps them.

        Parameters
        ----------
        names : dict of int to str
            Names by number; None or an empty text removes a name. Other clusters keep theirs.

        Returns
        -------
        result : Result
            This one.

        Raises
        ------
        InputError
            These are no dict, no cluster has the number, or a name is not a text of one line.
        RunError
            The run is being written, can only be read, or is only in memory; or the names in it are damaged.
        """
        self._refuse_undecided("names")
        if not isinstance(names, Mapping):
            raise InputError(
                f"names: got a {type(names).__name__}; give a dict of numbers to names, such as {{0: 'idle'}}"
            )
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
        raise InputError(f"names: got {name!r}; give a text of one line with at most 200 characters")
    return name.strip()


def _listed(numbers: NDArray[np.int64]) -> str:
    return ", ".join(map(str, numbers.tolist()))
