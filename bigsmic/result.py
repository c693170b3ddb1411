"""The result of a fit, read from its run directory, which another process may have written."""

import uuid
from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from bigsmic import registry
from bigsmic.continuity.views import NumberedViews
from bigsmic.errors import AbsentResultError, InputError, RunError
from bigsmic.runtime.block_sizes import BlockSizes
from bigsmic.runtime.context import Context
from bigsmic.runtime.diagnostics import scaling_text
from bigsmic.stages import columns, numbering
from bigsmic.stages.rowwise_output import read_array
from bigsmic.store import CarriedRun, Run, names_of
from bigsmic.tables import count
from bigsmic.tabular import TabularViews
from bigsmic.types import ArrayOnDemand, Labels, Posterior, Rows, StorageOptions, StrPath
from bigsmic.updates.views import ArchiveViews
from bigsmic.views.clusters import ClusterViews
from bigsmic.views.passes import AllLabels
from bigsmic.weight_functions import refuse_other

IS_A_HINT = "is a hint, cut(c) gives the result for c clusters"


class Result(ArchiveViews, ClusterViews, NumberedViews, TabularViews):
    """Labels, posteriors, scores and diagnostics of a finished fit, and predictions for new rows.

    Made by :func:`bigsmic.fit`, or by :meth:`open` from a run directory.

    Attributes
    ----------
    location : str
        The run directory. Blocks of a temporary one may be in memory, and become files when it is read.
    settings : Settings
        Parameters of the fit, reduced to what the number of rows allowed.
    """

    def __init__(self, run: Any, settings: Any, temporary: bool = False, base: "Result | None" = None) -> None:
        self._run, self.settings, self._base = run, settings, base
        self._temporary = temporary
        self._rows: Any = None if base is None else base._rows
        self._location = str(run.location)
        if temporary:
            run.delete_when_unused()

    @classmethod
    def open(
        cls,
        run: StrPath,
        *,
        storage_options: StorageOptions = None,
        kernel: Callable[..., Any] | None = None,
        temporary: bool = False,
    ) -> "Result":
        """Open the run directory of a finished fit.

        Parameters
        ----------
        run : str or Path
            Path or URL: the ``out=`` of the fit.
        storage_options : dict, optional
            For the file system behind a URL.
        kernel : callable, optional
            The kernel of the fit, if it was a callable: functions are not stored, and predict needs it.
        temporary : bool
            Delete the directory once nothing refers to the Result or to one of its arrays.

        Raises
        ------
        RunError
            The directory is not a run, has another format, is damaged, or is not finished. Rows and blocks are checked
            when they are read; damage found then raises :class:`~bigsmic.errors.CorruptBlockError`.
        """
        opened = Run(run, storage_options, writable=False)
        settings = _stored_settings(opened, kernel)
        if kernel is not None:
            refuse_other(kernel, opened.identity["settings"].get("kernel"))
        summary = opened.attribute("summary")
        if summary is None:
            raise RunError(f"run: {opened.location} is not finished; run the same fit again to resume it")
        settings = settings.found_in(summary)
        result: Result = registry.of(settings).Result(opened, settings, temporary)
        return result

    _tells: ClassVar[dict[str, Any]] = {}
    """Stages that the Result reads in addition to those of predictions."""
    _hint: ClassVar[str] = ""
    """Attribute with evidence for the number of clusters, if the fit left it open."""

    def __getattr__(self, name: str) -> Any:
        """Raise AbsentResultError for an attribute that only other methods have, with a list of those that exist."""
        if name.startswith("_") or hasattr(type(self), name) or "settings" not in self.__dict__:
            return object.__getattribute__(self, name)  # raises AttributeError, or the error of a property
        if name == "cut":
            raise AbsentResultError(
                f"cut: a fit by method {self.settings.method!r} has no trees to cut; fit again with that number"
            )
        found = ", ".join(sorted(public for public in dir(type(self)) if not public.startswith("_")))
        raise AbsentResultError(
            f"{name}: a fit by method {self.settings.method!r} has no such attribute; it has {found}"
        )

    @cached_property
    def _context(self) -> Context:
        return Context(None, self._run, self.settings)

    def __copy__(self) -> Self:
        return self._like(self._public())

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self._like(deepcopy(self._public(), memo))

    def _public(self) -> dict[str, Any]:
        """Attributes that are plain values: the settings, and cached properties."""
        return {name: value for name, value in self.__dict__.items() if not name.startswith("_")}

    def _like(self, values: dict[str, Any]) -> Self:
        """A copy for the same run, with other values of these attributes."""
        made = object.__new__(type(self))
        made.__dict__ |= values | {
            "_run": self._run,
            "_base": self._base,
            "_location": self._location,
            "_temporary": self._temporary,
            "_rows": self._rows,
        }
        return made

    def __getstate__(self) -> dict[str, Any]:
        from bigsmic import portable

        if not self.settings.undecided:
            _ = self.labels
        values = self._public() | {"location": self._location, "_rows": self._rows}
        if isinstance(self._run, CarriedRun):
            return values | {"_run": self._run}
        if not self._temporary and self._run.is_public:
            return values | {"_run": portable.Place.of(self._run)}
        return values | {"_run": portable.carried(self._context, self._tells)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        self.__dict__ |= {"_location": state.pop("location"), "_base": None, "_temporary": False, "_rows": None} | state
        place: Any = self._run
        if not isinstance(place, CarriedRun):
            self._run = place.open()

    def save(self, path: StrPath, *, storage_options: StorageOptions = None) -> "Result":
        """Save the result, such as that of a fit without ``out=`` or of a cut, to a run directory.

        Parameters
        ----------
        path : str or Path
            Path or URL, which must not exist yet, unless a save of the same to it was killed.
        storage_options : dict, optional
            For the file system behind a URL; never written anywhere.

        Returns
        -------
        result : Result
            The result, opened from `path`. It is pickled as its path, and the same fit with ``out=path`` finds it
            finished.

        Raises
        ------
        RunError
            `path` exists, or the Result was unpickled and has only what predictions need.
        CorruptBlockError
            A stored block is damaged. Nothing is left at a local `path`.
        """
        from bigsmic import portable

        address = portable.save(self._context, path, storage_options)
        kernel = getattr(self.settings, "kernel", None)
        kernel = kernel if callable(kernel) else None
        return type(self).open(address, storage_options=storage_options, kernel=kernel)._of_rows(self._rows)

    @property
    def location(self) -> str:
        """The run directory, whose blocks are in files from then on, for whoever reads it."""
        self._run.settle()
        return self._location

    @property
    def is_temporary(self) -> bool:
        """Whether the run directory is deleted with the Result: that of a fit without ``out=``, or of a cut."""
        return self._temporary

    def _of_rows(self, rows: Any) -> Self:
        """The same result, now with the coordinates of its rows, or None."""
        self._rows = rows
        return self

    def report(
        self,
        path: StrPath,
        archive: Rows | None = None,
        *,
        storage_options: StorageOptions = None,
        overwrite: bool = False,
        **options: Any,
    ) -> None:
        """Write one HTML file about the run: its settings, the clusters, and how far to trust them.

        The file needs neither network nor scripts, and has at most 3 MB.

        Parameters
        ----------
        path : str or Path
            Path or URL of the file, ``.html``. An earlier report of this run is overwritten.
        archive : array_like, Zarr array, dask array or dataframe, path or URL, optional, shape (n, d)
            The rows of the fit, for the pages about columns; read once, in blocks.
        storage_options : dict, optional
            For the file systems behind URLs; never written anywhere.
        overwrite : bool
            Allow the report of another run to be overwritten. Files that are not reports are never overwritten.
        **options
            `component` and `missing_chunks`, as in :func:`bigsmic.fit`; `column_names`, a sequence of d str, by default
            those of the archive; `columns_per_channel`, the number of columns of one channel, if columns are ordered by
            channel; `times`, a number or time for each of the n rows, or a file of them, which adds shares over time;
            `map_rows`, rows of the map, at most and by default 20,000, and 0 for no map. `client`, `scheduler`,
            `engine` and `n_threads`, as in :meth:`predict_proba`, determine where blocks are read.

        Raises
        ------
        RunMismatchError
            `archive` does not have the rows of the fit.
        RunError
            `path` has something else, which stays as it was; or a block of the run is damaged.
        InputError
            The extra ``report`` is not installed, the archive cannot be read, or an option cannot be used.
        """
        from bigsmic.report.writing import write

        write(self, path, archive, storage_options=storage_options, overwrite=overwrite, **options)

    @property
    def n_clusters(self) -> int | None:
        """Number of clusters, c; the number that was found, if the method finds it; None if there are no labels.

        After a fit with ``like=``, numbers of clusters that vanished count too: all labels are less than c, and the
        posterior has c columns. :attr:`numbers` has the numbers in use.
        """
        return None if self.settings.undecided else self._n_columns

    @property
    def _n_columns(self) -> int:
        """Columns of the posterior of a result that has labels."""
        found: int = self.diagnostics.get("n_clusters", self.settings.n_clusters)
        return numbering.width(self._context, found)

    @cached_property
    def labels(self) -> NDArray[np.int32]:
        """Cluster of every row, in input order, -1 for none: ndarray of int32, shape (n,)."""
        seen = self._seen.get(AllLabels())
        return np.asarray(self._array("labels")) if seen is None else seen.array

    @property
    def posterior(self) -> ArrayOnDemand:
        """Probability of every cluster for every row: a lazy array of float32, shape (n, c), on disk.

        Slice it, load it with ``numpy.asarray``, or pass it to ``dask.array.from_array``. Rows are checked when they
        are read; see :class:`bigsmic.store.CheckedArray`.
        """
        posterior: ArrayOnDemand = self._array("posterior")
        return posterior

    def _refuse_undecided(self, what: str) -> None:
        if self.settings.undecided:
            raise InputError(f"{what}: the fit was given no number of clusters and {self._open_reason()}")

    def _open_reason(self) -> str:
        """Why there is no number of clusters, and what to do: the attribute with evidence for one, mostly."""
        return f"chose none; {self._hint} {IS_A_HINT}"

    def _array(self, name: str) -> Any:
        self._refuse_undecided(name)
        return read_array(self._context, name)

    @cached_property
    def diagnostics(self) -> dict[str, Any]:
        """Diagnostics of the fit, a dict: recall of neighbours, eigenvalues, seconds and memory per stage, and more."""
        return self._run.attribute("summary") or {}

    def scaled(self, X: ArrayLike) -> NDArray[np.float32]:
        """Centre and scale rows `X`, shape (m, d), as the fit did: ndarray of float32, shape (m, d).

        ``diagnostics["scaling"]`` has the scaling and, if the fit chose it, the figures on which the choice depends.
        InputError for rows of other columns, or if the fit was of a graph.
        """
        scaled: NDArray[np.float32] = columns.scaled(self._context, X)
        return scaled

    def predict(self, data: Rows, **options: Any) -> Labels:
        """Labels of new rows.

        Parameters
        ----------
        data : array_like, Zarr array, dask array or dataframe, path or URL, shape (m, d)
            New rows in the units of the fitted ones, read in blocks.
        **options
            As in :meth:`predict_proba`.

        Returns
        -------
        labels : ndarray of int32, shape (m,)
            If `data` is a dask array, a lazy dask array with its chunks; with `out`, a Zarr array.

        Notes
        -----
        SMIC, 3SMIC, RIM and MSPC predict fitted rows to be in the clusters that ``labels`` has; equal rows that SMIC or
        3SMIC put into several clusters, in that of one of them. Other methods, and fits of graphs, treat them as new:
        such a row finds itself among its neighbours, so that its label may differ, mostly between clusters that touch.
        """
        if _is_lazy(data, options):
            return self._ask("predict", np.int32, data, options)
        return self._predict(data, **options)[0]

    def predict_proba(
        self,
        data: Rows,
        *,
        component: str | None = None,
        storage_options: StorageOptions = None,
        out: StrPath | None = None,
        overwrite: bool = False,
        **more: Any,
    ) -> Posterior:
        """Posteriors of new rows; that of a row does not depend on the other rows.

        Parameters
        ----------
        data : array_like, Zarr array, dask array or dataframe, path or URL, shape (m, d)
            New rows in the units of the fitted ones, read in blocks. For a fit of a graph, a sparse matrix of shape
            (m, n): distances to, or affinities with, the fitted rows.
        component : str, optional
            Array within a group of Zarr or HDF5; of a table, names of columns, separated by commas.
        storage_options : dict, optional
            For the file system behind a URL.
        out : str or Path, optional
            Write Zarr arrays ``labels`` and ``posterior`` to a group there, block by block, and return them lazily. The
            group is created; complete or partial predictions of the same rows by the same fit are overwritten; anything
            else is refused.
        overwrite : bool
            Allow other arrays of these names in a Zarr group to be overwritten, but never those of a run directory or
            of the archive that is read.
        **more
            `rows`, a slice of the new rows, which alone are predicted; `n_threads`, 1 by default; `missing_chunks`,
            `client`, `scheduler`, `engine`, `progress` and `performance_report`, as in :func:`bigsmic.fit`. Rows in
            memory are predicted in this process.

        Returns
        -------
        posterior : ndarray of float32, shape (m, c)
            If `data` is a dask array, a lazy dask array with its chunks; Dask decides where to compute it, and `out` is
            the only option allowed. With `out`, a Zarr array.

        Raises
        ------
        InputError
            The rows have another number of columns than the fitted ones, or columns of other names or in another order
            where both have names, or NaN, or an option does not exist (:class:`~bigsmic.errors.OptionError`).
        RunError
            `out` is something else, which stays as it was; RunLockedError if another process writes there.
        """
        given = {"component": component, "storage_options": storage_options, "out": out, "overwrite": overwrite}
        options = given | more
        if _is_lazy(data, options):
            return self._ask("predict_proba", np.float32, data, options, self._n_columns)
        return self._predict(data, **options)[1]

    def _ask(
        self, method: str, dtype: DTypeLike, data: Any, options: Mapping[str, Any], width: int | None = None
    ) -> Any:
        """Dask array of the results of a method for lazy rows."""
        from bigsmic.lazy import Answer, Lazily

        given = sorted(name for name, value in options.items() if value not in (None, False))
        if given:
            raise InputError(
                f"{method}: got {', '.join(given)} with a dask array, whose predictions are a dask array that Dask "
                "computes; leave it out, or give out= to write them"
            )
        self._check_predicts(method)
        lazily = Lazily(self, self._context.d, self._key)
        return lazily(method, self._dask_rows(data, method, lengths=False), Answer(dtype, width))

    @cached_property
    def _key(self) -> str:
        return f"bigsmic-result-{uuid.uuid4().hex}"

    def _check_predicts(self, what: str = "predict") -> None:
        self._refuse_undecided(what)
        if getattr(self.settings, "kernel", None) == "callable":
            raise InputError(
                f"{what}: the fit's kernel was a callable, which is not stored; pass kernel= to Result.open"
            )

    def _predict(self, data: Any, **options: Any) -> tuple[Labels, Posterior]:
        from bigsmic.prediction import predict

        self._check_predicts()
        return predict(self._context, self._dask_rows(data, "predict", lengths=True), **options)

    def _score(self, score: str, data: Any, options: Mapping[str, Any]) -> Any:
        """Noise scores, or novelty, of new rows; `score` is the name of the method."""
        from bigsmic.prediction import score_rows

        if _is_lazy(data, options):
            return self._ask(score, np.float32, data, options)
        self._check_predicts(score)
        return score_rows(self._context, self._dask_rows(data, score, lengths=True), score, **options)

    def _dask_rows(self, data: Any, who: str, lengths: bool) -> Any:
        """The rows; those of a dask dataframe as a dask array, once its columns are known to be those of the fit."""
        if not hasattr(data, "to_dask_array"):
            return data
        from bigsmic.lazy import rows_of

        if hasattr(type(data), "to_dask_array"):  # a Delayed has any attribute
            columns.refuse_others(self._context.run, names_of(data), who)
        return rows_of(data, lengths)

    def __repr__(self) -> str:
        rows = f"{count(self.diagnostics['rows'], 'row')} x {count(self.diagnostics['columns'], 'column')}"
        if self.settings.undecided:
            return (
                f"Result of {rows}, not yet cut\n  {self._open_line()}\n"
                + "".join(f"{line}\n" for line in self._scale_lines())
                + f"  run        {self.location}"
            )
        numbers = self.numbers
        sizes = np.bincount(self.labels[self.labels >= 0], minlength=self._n_columns)[numbers]
        lines = [
            f"Result of {rows}, {count(len(numbers), 'cluster')}",
            f"  sizes      {_shortened(np.sort(sizes)[::-1])}",
        ]
        lines += [f"  names      {_listed(self.names)}"] if self.names else []
        lines += [f"  matched    {self.matched.sentence}"] if self.matched else []
        lines += self._scale_lines() + self._choice_lines()
        wall = sum(stage["wall"] for stage in self.diagnostics.get("stages", {}).values())
        lines.append(f"  seconds    {wall:.1f}")
        lines.append(f"  run        {self.location}")
        return "\n".join(lines)

    def _scale_lines(self) -> list[str]:
        text = scaling_text(self.diagnostics)
        return [f"  scale      {text}"] if text else []

    def _open_line(self) -> str:
        """Line of ``repr`` for a fit whose number of clusters is open."""
        return f"The fit was given no number of clusters and did not choose one: see {self._hint}, then cut(c)."

    def _choice_lines(self) -> list[str]:
        """The method's lines of ``repr`` about the choice of its labels."""
        return []

    def _repr_html_(self) -> str:
        from html import escape

        rows = (line.split(None, 1) for line in repr(self).splitlines()[1:])
        cells = "".join(f"<tr><th style='text-align:left'>{k}</th><td>{escape(v)}</td></tr>" for k, v in rows)
        return f"<b>{escape(repr(self).splitlines()[0])}</b><table>{cells}</table>"


def _stored_settings(run: Run, kernel: Callable[..., Any] | None) -> Any:
    """Settings of the fit that made a run; RunError if this version cannot read them."""
    try:
        facts, stored = run.identity["input"], run.identity["settings"]
        if not all(type(facts[name]) is int for name in ("rows", "columns")):
            raise ValueError(f"got {facts['rows']!r} rows x {facts['columns']!r} columns")
        BlockSizes.of_run(run.identity)  # raises if they are not of this version
        return registry.of_stored(stored).stored(stored, kernel)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RunError(
            f"run: {run.location}/zarr.json has no settings that this version of bigsmic can read ({error}); give the "
            "out= of a fit, or upgrade bigsmic"
        ) from None


def _is_lazy(data: object, options: Mapping[str, Any]) -> bool:
    """Whether predictions are to be lazy, because the rows are."""
    return hasattr(data, "dask") and options.get("out") is None


def _listed(names: Mapping[int, str]) -> str:
    return ", ".join(f"{number} {name}" for number, name in names.items())


def _shortened(sizes: NDArray[np.int64], shown: int = 8) -> str:
    text = ", ".join(f"{size:,}" for size in sizes[:shown])
    return text if len(sizes) <= shown else f"{text}, .. {sizes[-1]:,}"
