"""Clusters of the cells of an AnnData, in memory, backed by a file, or in a store given by its path.

>>> from bigsmic.interop.anndata import cluster
>>> cluster(adata, c=12)  # doctest: +SKIP
>>> adata.obs["bigsmic"], adata.obs["bigsmic_agreement"], adata.obsm["bigsmic_posterior"]  # doctest: +SKIP
"""

import importlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigsmic.errors import InputError, RunError
from bigsmic.numerics.graph.signatures import row_signatures
from bigsmic.pipeline import fit
from bigsmic.result import Result
from bigsmic.stages.precomputed import signatures
from bigsmic.store import open_group
from bigsmic.store.admission import words_of
from bigsmic.store.sources.sparse import canonical_csr
from bigsmic.types import Integers
from bigsmic.validation import brief
from bigsmic.warning import warn

KINDS = {"connectivities": "kernel", "distances": "metric"}
"""Option of a fit that takes a graph of ``obsp``, by the suffix of its name."""
HDF5 = (".h5ad", ".h5", ".hdf5")
ONE_A_CELL = ("agreement", "noise")
KEY = "bigsmic"
PCA = "X_pca"
"""Key of the features that are clustered if none is given."""
NAME = "name"
EXAMPLES = {"use_rep": PCA, "use_graph": "distances"}
LOOKED_FOR = 16
"""Rows of the fit that are looked for among cells whose representations differ from it."""
BLOCK_BYTES = 64 << 20
"""Size of the part of a representation that is compared with the fit at once, as files may have more than memory."""
GRAPH_ROWS = 1 << 16
"""Rows of a graph of which signatures are computed at once."""
RESERVED = (".", "..", "_index")
"""Names that AnnData sets, but cannot write to a file, or to one of the kinds of files."""


def cluster(
    adata: Any,
    c: int | Sequence[int] | None = None,
    *,
    use_rep: str | None = None,
    use_graph: str | None = None,
    key_added: str = KEY,
    **options: Any,
) -> Result:
    """Cluster the cells of an AnnData.

    Parameters
    ----------
    adata : AnnData, or path or URL of one
        An object, in memory or backed by a file, gets the result; see :func:`annotate`. A store given by its path,
        ``.h5ad`` or Zarr, is read in blocks and not written to; :func:`annotate` sets the result in an AnnData of the
        same cells. ``uns[key_added]`` also has the `use_rep` or `use_graph` of an object.
    c : int, None, or sequence of int
        As in :func:`bigsmic.fit`; None finds the number if the cells show it.
    use_rep : str, optional
        Key of ``obsm`` with the features of the cells, or ``"X"``; by default ``"X_pca"``. Not with `use_graph`.
    use_graph : str, optional
        Key of ``obsp``, for a graph instead of features: ``"distances"``, the neighbours found by scanpy, or
        ``"connectivities"``, its weights, and names that end so. Graphs of other names need ``metric="precomputed"`` if
        they have distances, or ``kernel="precomputed"`` if affinities. A graph does not show the number of clusters:
        give `c`.
    key_added : str
        Prefix of the names of results in an object.
    **options
        As in :func:`bigsmic.fit`, such as ``out=`` and ``noise=True``.

    Returns
    -------
    result : Result

    Raises
    ------
    InputError
        Both `use_rep` and `use_graph` are given, there is no such representation or graph, the representation is
        sparse, `adata` is a view, or has something else under `key_added`, which is no text or one that files cannot
        have; `key_added` is given with a path; and as in :func:`bigsmic.fit`.

    Warns
    -----
    BigsmicWarning
        The cells show no number of clusters and none was given. Only ``uns`` is set, and the warning names the remedy.
    """
    if "component" in options:
        raise InputError(f"component: got {options['component']!r}; rows of an AnnData are named by use_rep='X_pca'")
    if use_rep is not None and use_graph is not None:
        raise InputError(
            f"use_rep: got {use_rep!r} together with use_graph={use_graph!r}, which is clustered instead of features; "
            "leave one of them out"
        )
    for name, given in (("use_rep", use_rep), ("use_graph", use_graph)):
        if not (given is None or isinstance(given, str)):
            raise InputError(f"{name}: got {brief(given)}; give the name of one, such as {name}={EXAMPLES[name]!r}")
    use_rep = PCA if use_rep is None else use_rep
    if isinstance(adata, str | os.PathLike):
        if key_added != KEY:
            raise InputError(
                f"key_added: got {key_added!r} and the path of a store, which is not written to; give it to "
                f"annotate(adata, result, {key_added!r}), which sets the result in an AnnData of the same cells"
            )
        return _fit_stored(os.fspath(adata), c, (use_rep, use_graph), options)
    _refuse(adata, key_added)
    if options.get("rows") is not None:
        raise InputError(
            f"rows: got {options['rows']!r}, but every cell gets a label; give the cells themselves, adata[rows].copy()"
        )
    data = _rows(adata, use_rep) if use_graph is None else _graph(adata.obsp, use_graph)
    result = fit(data, c, **_as_graph(use_graph, options))
    _set(adata, result, key_added)
    adata.uns[key_added] |= {"use_rep": use_rep} if use_graph is None else {"use_graph": use_graph}
    return result


def annotate(adata: Any, result: Result, key_added: str = KEY) -> None:
    """Set the results of a fit in an AnnData of the same cells.

    Parameters
    ----------
    adata : AnnData
        ``obs[key]`` gets the labels as categories ``"0"``, ``"1"``, .., missing for cells in no cluster;
        ``obs[key_agreement]`` and ``obs[key_noise]`` agreement and noise, if the fit has them; ``obs[key_name]`` the
        names of clusters, if they have some; ``obsm[key_posterior]`` the posterior, float32, shape (n, c); ``uns[key]``
        a dict of ``n_clusters``, ``method``, ``settings`` as JSON, the ``run`` given by ``out=``, ``valleys``, the
        evidence for the number of clusters as a sentence, and ``columns``, the names of these columns of ``obs`` as
        JSON. Earlier results are replaced; columns of these names from another source are refused.
    result : Result
        A fit of these cells, such as that of :func:`cluster` with the path of their store.
    key_added : str
        The ``key`` of these names: a prefix, by which several results can be kept.

    Raises
    ------
    InputError
        The number of cells differs, their rows or graphs are in another order than in the fit, `adata` is a view, or
        has something else under `key_added`, which is no text or one that files cannot have.

    Warns
    -----
    BigsmicWarning
        The result has no labels, as the fit left the number of clusters open.
    """
    _refuse(adata, key_added)
    n = result.diagnostics["rows"]
    if adata.n_obs != n:
        raise InputError(
            f"adata: got {adata.n_obs:,} cells, but the fit has {n:,} rows; give the cells that were fitted"
        )
    _refuse_reordered(adata, result)
    _set(adata, result, key_added)


def _set(adata: Any, result: Result, key: str) -> None:
    """Replace an earlier result. All of the new one is read first, as its run may have gone."""
    facts = _facts(result)
    columns, posterior = ({}, None) if result.settings.undecided else _of_cells(result, key)
    _forget(adata, key)
    if posterior is None:
        adata.uns[key] = facts
        _warn_of_open(result)
        return
    adata.uns[key] = facts | {"columns": json.dumps([*columns])}
    for name, values in columns.items():
        adata.obs[name] = values
    adata.obsm[f"{key}_posterior"] = posterior


def _refuse_reordered(adata: Any, result: Result) -> None:
    """Refuse cells of which a representation has the rows of the fit, but at other places.

    The rows that the scan of the fit drew are compared. Representations that have none of them say nothing: the fit
    may be of another one, which the object lacks. One that has all of them in place is the one of the fit, whatever
    others have: shuffled or mirrored copies have the same rows elsewhere.
    """
    context = result._context
    if result.settings.precomputed:
        _refuse_reordered_graph(adata, context)
        return
    try:
        numbers, drawn = context.drawn_numbers(), context.drawn_rows()
    except RunError:  # an unpickled result has what predictions need
        return
    differing = []
    for rep in _representations(adata, (context.n, context.d), drawn.dtype):
        sought = drawn.astype(min(rep.dtype, drawn.dtype, key=lambda kind: kind.itemsize), copy=False)
        moved = _differing(rep, numbers, sought)
        if not len(moved):
            return
        differing.append((rep, sought, moved[:LOOKED_FOR]))
    for rep, sought, moved in differing:
        for lo, rows in _blocks(rep):
            same = rows.astype(sought.dtype, copy=False)
            for i in moved:
                places = np.flatnonzero((same == sought[i]).all(axis=1))
                if len(places):
                    raise _reordered(lo + int(places[0]), int(numbers[i]))


def _refuse_reordered_graph(adata: Any, context: Any) -> None:
    """Refuse cells of which a graph is that of the fit with its cells in another order.

    Signatures of the rows are compared. A graph of which only some are the same is another one, which says nothing.
    """
    try:
        fitted = signatures(context)
    except RunError:  # of an unpickled result, or a run of an earlier version
        return
    differing = []
    for graph in adata.obsp.values():
        if _is_sparse(graph):
            found = _signatures(graph)
            if np.array_equal(found, fitted):
                return
            differing.append(found)
    for found in differing:
        if np.array_equal(np.sort(found), np.sort(fitted)):
            i = int(np.flatnonzero(found != fitted)[0])
            raise _reordered(int(np.flatnonzero(found == fitted[i])[0]), i)


def _signatures(graph: Any) -> Integers:
    """Signatures of the rows of a graph of ``obsp``, in memory or in a file."""
    rows = canonical_csr(graph.to_memory() if hasattr(graph, "to_memory") else graph)
    n = rows.shape[0]
    return row_signatures(lambda: ((lo, rows[lo : lo + GRAPH_ROWS]) for lo in range(0, n, GRAPH_ROWS)), n)


def _reordered(cell: int, fitted: int) -> InputError:
    return InputError(
        f"adata: cell {cell:,} has the row of cell {fitted:,} of the fit, so the cells are in another order; give them "
        "in that of the fit, or fit again"
    )


def _representations(adata: Any, shape: tuple[int, int], dtype: np.dtype[Any]) -> Iterator[Any]:
    """Dense representations of this shape, and of this dtype or, if it is floating-point, another such one."""
    for rep in (*adata.obsm.values(), adata.X, *adata.layers.values()):
        if getattr(rep, "shape", None) == shape and not _is_sparse(rep):
            array = rep if hasattr(rep, "dtype") else _of_table(rep)
            if array.dtype == dtype or array.dtype.kind == dtype.kind == "f":
                yield array


def _of_table(table: Any) -> NDArray[Any]:
    """The columns of a DataFrame as the fit reads them: truth values beside numbers are float64."""
    array = np.asarray(table)
    if array.dtype != object or words_of(table):
        return array
    numbers: NDArray[np.float64] = table.to_numpy(np.float64, na_value=np.nan)
    return numbers


def _blocks(rep: Any) -> Iterator[tuple[int, NDArray[Any]]]:
    """Yield the number of the first row, and the rows, of every block of an array in memory, in a file, or of dask."""
    n, d = rep.shape
    step = max(1, BLOCK_BYTES // (d * rep.dtype.itemsize))
    for lo in range(0, n, step):
        yield lo, np.asarray(rep[lo : lo + step])


def _differing(rep: Any, numbers: Integers, sought: NDArray[Any]) -> Integers:
    """Places, among ascending row numbers, of rows other than these; floating-point rows have the digits of these."""
    found = []
    for lo, rows in _blocks(rep):
        first, last = np.searchsorted(numbers, (lo, lo + len(rows)))
        own = rows[numbers[first:last] - lo].astype(sought.dtype, copy=False)
        found.append(first + np.flatnonzero((own != sought[first:last]).any(axis=1)))
    return np.concatenate(found)


def _columns_there(adata: Any, key: str) -> list[str]:
    """Existing columns of cells of these names, and the name of their index, from an earlier result or elsewhere."""
    names = (key, *(f"{key}_{what}" for what in (*ONE_A_CELL, NAME)))
    return [name for name in names if name in adata.obs or name == adata.obs.index.name]


def _forget(adata: Any, key: str) -> None:
    """Remove an earlier result, as a new one may have fewer arrays."""
    for name in _columns_there(adata, key):
        del adata.obs[name]
    if f"{key}_posterior" in adata.obsm:
        del adata.obsm[f"{key}_posterior"]


def _of_cells(result: Result, key: str) -> tuple[dict[str, Any], NDArray[Any]]:
    """Columns of cells by name, and the posterior."""
    import pandas as pd

    labels, posterior = result.labels, np.asarray(result.posterior)
    found: dict[str, Any] = {key: pd.Categorical.from_codes(labels, [str(k) for k in range(posterior.shape[1])])}
    if names := result.names:
        found[f"{key}_{NAME}"] = pd.Categorical([names.get(k) for k in labels.tolist()])
    for what in ONE_A_CELL:
        if (values := getattr(result, what, None)) is not None:
            found[f"{key}_{what}"] = values
    return found, posterior


def _facts(result: Result) -> dict[str, Any]:
    """Facts about the fit, of types that AnnData can write."""
    valleys = getattr(result, "valleys", None)
    facts = {"method": result.settings.method, "settings": json.dumps(result.settings.identity())}
    facts |= {} if result.n_clusters is None else {"n_clusters": int(result.n_clusters)}
    facts |= {} if result.is_temporary else {"run": result.location}
    return facts | ({"valleys": valleys.sentence} if valleys else {})


def _warn_of_open(result: Result) -> None:
    valleys = getattr(result, "valleys", None)
    why = valleys.sentence if valleys else "A graph does not show how many clusters there are."
    warn(f"cluster: {why} No labels are set; give c=, or annotate(adata, result.cut(c))")


# -- input


def _rows(adata: Any, use_rep: str) -> Any:
    """Dense rows of an AnnData."""
    rows = adata.X if use_rep == "X" else _representation(adata.obsm, adata.obsp, use_rep)
    if rows is None or _is_sparse(rows):
        kind = "nothing" if rows is None else "a sparse matrix"
        raise InputError(
            f"use_rep: {use_rep!r} is {kind}, of which no rows are read; scanpy.pp.pca(adata) makes dense rows of it: "
            "use_rep='X_pca'"
        )
    return rows


def _representation(representations: Any, graphs: Any, use_rep: str) -> Any:
    graph = f"use_graph={use_rep!r} takes what obsp has" if use_rep in graphs else None
    return _member(representations, "obsm", use_rep, graph or "scanpy.pp.pca(adata) makes 'X_pca'")


def _graph(graphs: Any, use_graph: str) -> Any:
    return _member(graphs, "obsp", use_graph, "scanpy.pp.neighbors(adata) makes 'distances'")


def _member(members: Any, where: str, key: str, remedy: str) -> Any:
    if key not in members:
        option = "use_graph" if where == "obsp" else "use_rep"
        raise InputError(f"{option}: got {key!r}, {where} has {sorted(members)}; {remedy}")
    return members[key]


def _as_graph(use_graph: str | None, options: dict[str, Any]) -> dict[str, Any]:
    """Options of a fit, among them what the entries of a graph are: as given, or as its name says."""
    given = [options.get(option) for option in KINDS.values()]
    if use_graph is None or any(isinstance(one, str) and one == "precomputed" for one in given):
        return options
    found = {option: "precomputed" for suffix, option in KINDS.items() if use_graph.endswith(suffix)}
    if not found:
        raise InputError(
            f"use_graph: {use_graph!r} ends in neither 'distances' nor 'connectivities', so that the name does not say "
            "what it has; give metric='precomputed' if distances, or kernel='precomputed' if affinities"
        )
    return found | options


def _is_sparse(rows: Any) -> bool:
    """Whether this is a sparse matrix, in memory or in a file."""
    return hasattr(rows, "nnz") or (hasattr(rows, "format") and hasattr(rows, "to_memory"))


def _refuse(adata: Any, key: str) -> None:
    """Refuse objects in which a result cannot be set."""
    if not (hasattr(adata, "obsm") and hasattr(adata, "uns")):
        raise InputError(f"adata: got {type(adata).__name__}; give an AnnData, or the path of one")
    # anndata sets such names, and then writes no file, or one that it cannot read
    if not isinstance(key, str) or not key or "/" in key or "\0" in key or key in RESERVED:
        raise InputError(
            f"key_added: got {key!r}, which files of AnnData cannot have; give a text without '/' or a null character, "
            f"and none of {', '.join(RESERVED)}"
        )
    if adata.is_view:
        own = "to_memory" if adata.isbacked else "copy"  # copy() would need the name of another file then
        raise InputError(f"adata: got a view of another AnnData; pass adata.{own}()")
    foreign = _foreign(adata, key)
    if foreign:
        raise InputError(
            f"key_added: got {key!r}, but {foreign[0]!r} exists and is not from this function; give another key_added="
        )


def _foreign(adata: Any, key: str) -> list[str]:
    """Names that a result would get, and that are of something else than an earlier result."""
    taken = _columns_there(adata, key)
    facts = adata.uns.get(key)
    if not (isinstance(facts, Mapping) and {"method", "settings"} <= set(facts)):
        return taken + [name for name, place in ((f"{key}_posterior", adata.obsm), (key, adata.uns)) if name in place]
    if "columns" in facts:
        own = set(json.loads(facts["columns"]))
    else:  # without labels, or from a version that noted no columns
        own = {*taken} - {adata.obs.index.name} if "n_clusters" in facts else set()
    return [name for name in taken if name not in own]


# -- stores


def _fit_stored(path: str, c: Any, which: tuple[str, str | None], options: dict[str, Any]) -> Result:
    """Fit rows or a graph of a store; rows are read in blocks, a graph is loaded."""
    use_rep, use_graph = which
    component = "X" if use_rep == "X" else f"obsm/{use_rep}"
    is_hdf5 = path.lower().endswith(HDF5)
    with _opened(path, is_hdf5, options.get("storage_options")) as store:
        if use_graph is None:
            if use_rep != "X":
                _representation(store.get("obsm", {}), store.get("obsp", {}), use_rep)
            return fit(store if is_hdf5 else path, c, component=component, **options)
        graph = _imported("anndata.io", path).read_elem(_graph(store.get("obsp", {}), use_graph))
    return fit(graph, c, **_as_graph(use_graph, options))


@contextmanager
def _opened(path: str, is_hdf5: bool, storage_options: Any) -> Iterator[Any]:
    if not is_hdf5:
        yield open_group(path, storage_options)
        return
    h5py = _imported("h5py", path)
    try:
        file = h5py.File(path, "r")
    except FileNotFoundError:
        raise InputError(
            f"adata: {path!r} does not exist; give the path of an .h5ad file on this machine, or the path or URL of an "
            "AnnData in Zarr"
        ) from None
    except OSError as error:
        raise InputError(
            f"adata: {path!r} could not be opened as HDF5 ({error}); give the path of an AnnData"
        ) from None
    with file:
        yield file


def _imported(name: str, path: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise InputError(
            f"adata: {path!r} is read by {name.partition('.')[0]}, which is not installed ({error}); "
            "pip install 'bigsmic[anndata]'"
        ) from None
