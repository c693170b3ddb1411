"""What a fit found: read from its run directory, which may have been written by another process, long ago."""

import weakref
from functools import cached_property

import numpy as np

from bigsmic.errors import InputError
from bigsmic.settings import Settings
from bigsmic.store import Run, remove_tree


class Result:
    """Labels, posteriors, scores and diagnostics of a finished fit, and predictions for new rows.

    Made by :func:`bigsmic.fit`, or by :meth:`open` from a run directory.

    Attributes
    ----------
    location : str
        The run directory.
    settings : Settings
        Parameters of the fit, cut to what the number of rows allowed.
    """

    def __init__(self, location, storage_options=None, kernel=None, temporary=False):
        self.location = str(location)
        self._run = Run(location, storage_options, writable=False)
        self.settings = _stored_settings(self._run.identity["settings"], kernel)
        self._run.array("labels")
        if temporary:
            self._finalizer = weakref.finalize(self, remove_tree, self.location)

    @classmethod
    def open(cls, run, *, storage_options=None, kernel=None):
        """Open the run directory of a finished fit.

        Parameters
        ----------
        run : str or Path
            Path or URL: the ``out=`` of the fit.
        storage_options : dict, optional
            For the file system behind a URL.
        kernel : callable, optional
            The kernel of the fit, where it was a callable: functions are not stored, and predict needs it.

        Raises
        ------
        RunError
            Not a run, of a newer format, or not finished.
        """
        return cls(run, storage_options, kernel)

    @property
    def n_clusters(self):
        """Number of clusters, c."""
        return self.settings.n_clusters

    @cached_property
    def labels(self):
        """Cluster of every row, in input order: ndarray of int32, shape (n,)."""
        return np.asarray(self._run.array("labels")[...])

    @property
    def posterior(self):
        """Probability of every cluster at every row: a Zarr array of float32, shape (n, c), lazy on disk.

        Slice it, or take ``numpy.asarray`` of it for all of it in memory.
        """
        return self._run.array("posterior")

    @cached_property
    def diagnostics(self):
        """How the fit went: recall of the neighbours, components, eigenvalues, seconds and memory per stage; a dict."""
        return self._run.attribute("summary", {})

    @cached_property
    def scores(self):
        """Every candidate with its LSMI: a pandas DataFrame, one row per candidate, the chosen one marked."""
        import pandas as pd

        return pd.DataFrame(self.diagnostics.get("candidates", []))

    def predict(self, data, **options):
        """Labels of new rows.

        Parameters
        ----------
        data : array_like, Zarr array, dask array, path or URL, shape (m, d)
            Read in blocks; in the units of the fitted rows.
        **options
            As of :meth:`predict_proba`.

        Returns
        -------
        labels : ndarray of int32, shape (m,)

        Notes
        -----
        New rows are new: a training row finds itself among its neighbours, so that ``predict`` of the fitted rows may
        differ from ``labels``, mostly between clusters that touch.
        """
        return self._predict(data, **options)[0]

    def predict_proba(self, data, *, component=None, storage_options=None, out=None, n_threads=None):
        """Posteriors of new rows; a row's do not depend on the other rows.

        Parameters
        ----------
        data : array_like, Zarr array, dask array, path or URL, shape (m, d)
        component : str, optional
            Array within a Zarr group.
        storage_options : dict, optional
            For the file system behind a URL.
        out : str or Path, optional
            Write Zarr arrays ``labels`` and ``posterior`` there as well, block by block, and return the arrays lazily.
        n_threads : int, optional

        Returns
        -------
        posterior : ndarray of float32, shape (m, c), or Zarr array with `out`

        Raises
        ------
        InputError
            Another number of columns than the fitted rows have, or NaN.
        """
        return self._predict(data, component=component, storage_options=storage_options, out=out, n_threads=n_threads)[
            1
        ]

    def _predict(self, data, **options):
        from bigsmic.prediction import predict

        if self.settings.kernel == "callable":
            raise InputError(
                "predict: the fit's kernel was a callable, which is not stored; pass kernel= to Result.open"
            )
        return predict(self._run, self.settings, data, **options)

    def __repr__(self):
        sizes = np.bincount(self.labels, minlength=self.n_clusters)
        lines = [
            f"Result of {len(self.labels):,} rows x {self.diagnostics.get('columns')} columns in {self.n_clusters} clusters",
            f"  sizes      {_shortened(np.sort(sizes)[::-1])}",
        ]
        lines += self._choice_lines()
        wall = sum(stage["wall"] for stage in self.diagnostics.get("stages", {}).values())
        lines.append(f"  seconds    {wall:.1f}")
        lines.append(f"  run        {self.location}")
        return "\n".join(lines)

    def _choice_lines(self):
        rows = self.diagnostics.get("candidates", [])
        chosen = [row for row in rows if row["chosen"]]
        if not chosen:
            return []
        if len(chosen) == 1:
            row = chosen[0]
            what = f"kernel {row['kernel']}, t = {row['t']}, {row['columns']} eigenvectors, {row['assignment']}"
            return [f"  chosen     {what}; LSMI {row['lsmi']:.4f}, {len(rows)} labelings"]
        low, high = min(row["median_ari"] for row in rows), max(row["median_ari"] for row in rows)
        return [f"  consensus  of {len(rows)} labelings, which agree to a median ARI of {low:.2f} to {high:.2f}"]

    def _repr_html_(self):
        from html import escape

        rows = (line.split(None, 1) for line in repr(self).splitlines()[1:])
        cells = "".join(f"<tr><th style='text-align:left'>{k}</th><td>{escape(v)}</td></tr>" for k, v in rows)
        return f"<b>{escape(repr(self).splitlines()[0])}</b><table>{cells}</table>"


def _stored_settings(stored, kernel):
    stored = dict(stored)
    if str(stored["kernel"]).startswith("callable"):
        stored["kernel"] = kernel if kernel is not None else "callable"
    for name in ("t", "prior"):
        if stored[name] is not None:
            stored[name] = tuple(stored[name])
    return Settings(**stored)


def _shortened(sizes, shown=8):
    text = ", ".join(f"{size:,}" for size in sizes[:shown])
    return text if len(sizes) <= shown else f"{text}, .. {sizes[-1]:,}"
