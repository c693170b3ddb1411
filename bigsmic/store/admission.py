"""Checks of the input before anything is read: its kind, and what to pass instead if it cannot be used.

Objects of other libraries are recognized by their attributes; the libraries are never imported.
"""

import os
from typing import Any

import numpy as np

from bigsmic.errors import InputError

CALLS = {
    ".npz": "numpy.load(path)['X']",
    ".h5": "h5py.File(path)['X']",
    ".hdf5": "h5py.File(path)['X']",
    ".h5ad": "h5py.File(path)['obsm/X_pca'], or the path to bigsmic.interop.anndata.cluster",
    ".nc": "xarray.open_dataset(path, chunks={})['X'].data",
    ".parquet": "dask.dataframe.read_parquet(path)",
    ".csv": "dask.dataframe.read_csv(path)",
    ".tsv": "dask.dataframe.read_csv(path, sep='\\t')",
    ".zip": "zarr.open_array(zarr.storage.ZipStore(path, mode='r'))",
    ".mat": "scipy.io.loadmat(path)['X']",
}
"""By suffix, the call in Python that opens a file that is no Zarr archive as an input that can be read."""
MODULES = {".npz": "", ".h5": ", h5py", ".hdf5": ", h5py", ".h5ad": ", h5py", ".nc": ", xarray", ".mat": ", scipy.io"}
"""By suffix of files that NumPy can copy to one that is read by its path, what this imports besides NumPy."""
WINDOWS = "bigsmic_windows"
"""Attribute that marks a group of windows."""
WINDOW_ROWS = "X"
"""Array of the features in a group of windows."""
LARGE_BAND = 64 << 20  # bytes; a larger band of chunks is not kept, as other libraries can read parts of chunks
NAMED = 8  # names that a message lists at most


def remedy_for(location: str) -> str | None:
    """What to do with a path that is no Zarr archive, in Python and in a shell, by its suffix; None for others."""
    start, suffix = os.path.splitext(location.split("?")[0].rstrip("/"))
    suffix = suffix.lower()
    if suffix not in CALLS:
        return None
    call = CALLS[suffix].replace("path", repr(location), 1)
    if suffix not in MODULES:
        return f"{'unzip it' if suffix == '.zip' else 'copy it to a local disk'}, or, in Python, pass {call}"
    opened = call.partition(", or ")[0]
    return (
        f"in Python, pass {call}, with the name of the array in it; in a shell, copy that array to a file that is "
        f'read by its path: python -c "import numpy{MODULES[suffix]}; numpy.save({start + ".npy"!r}, {opened})"'
    )


def is_masked(data: Any) -> bool:
    """Whether an array has masked entries."""
    return np.ma.is_masked(data)


def is_group(data: Any) -> bool:
    """Whether this is a group of arrays, of Zarr or HDF5."""
    return any(hasattr(type(data), name) for name in ("array_keys", "require_dataset"))


def in_blocks(data: Any) -> bool:
    """Whether the rows are read block by block and never held whole: an archive, or an array of another library.

    Parameters
    ----------
    data : object

    Returns
    -------
    bool
    """
    if isinstance(data, str | os.PathLike) or is_group(data):
        return True
    return hasattr(type(data), "nchunks_initialized") or is_dask(data) or reads_ranges(data)


def is_dask(data: Any) -> bool:
    """Whether this is a dask collection."""
    return hasattr(data, "dask") and hasattr(data, "compute")


def reads_ranges(data: Any) -> bool:
    """Whether this is an array that is read by slicing it, such as one of h5py, xarray or netCDF4, but not NumPy."""
    if isinstance(data, np.ndarray | np.generic) or _is_sparse(data) or type(data).__module__.startswith("pandas"):
        return False
    sliced = all(hasattr(data, name) for name in ("shape", "__getitem__"))
    return sliced and isinstance(getattr(data, "dtype", None), np.dtype)


def is_lazy_dask(data: Any) -> bool:
    """Whether this is a variable of xarray that computes its entries by dask."""
    return hasattr(data, "__dask_graph__") and data.__dask_graph__() is not None


def is_file_array(data: Any) -> bool:
    """Whether this is an array of HDF5, whose CF attributes have not been applied."""
    return type(data).__module__.partition(".")[0] == "h5py"


def chunk_rows(data: Any) -> int:
    """Rows of a chunk of an h5py or xarray array; 1 if that is not known, or a chunk is large."""
    chunks = getattr(data, "chunks", None) or tuple(getattr(data, "encoding", {}).get("preferred_chunks", {}).values())
    if not chunks or not all(isinstance(rows, int) for rows in chunks):
        return 1
    return chunks[0] if chunks[0] * data.shape[1] * data.dtype.itemsize <= LARGE_BAND else 1


def _is_sparse(data: Any) -> bool:
    return hasattr(data, "nnz") and (hasattr(data, "toarray") or hasattr(data, "todense"))


def refuse_unreadable(data: Any) -> None:
    """Refuse an input that is known to be no array of rows, and say what to pass instead.

    Raises
    ------
    InputError
    """
    for is_one, say in _REFUSED:
        if is_one(data):
            raise InputError(f"input: {say(data)}")


def _sparse(data: Any) -> str:
    return (
        f"got sparse rows ({type(data).__name__} of shape {tuple(data.shape)}), which are not taken; pass "
        "X.toarray(), or fewer columns such as TruncatedSVD(100).fit_transform(X); SMIC takes a graph with "
        "kernel='precomputed' or metric='precomputed'"
    )


def _is_sparse_dask(data: Any) -> bool:
    return is_dask(data) and _is_sparse(getattr(data, "_meta", None))


def _sparse_dask(data: Any) -> str:
    return "got a dask array of sparse blocks, which are not taken; pass X.map_blocks(lambda block: block.toarray())"


def _anndata(data: Any) -> str:
    names = [f"adata.obsm[{name!r}]" for name in list(data.obsm)[:NAMED]]
    return (
        f"got an AnnData, which holds many arrays; pass one of them, such as {' or '.join(names) or 'adata.X'}, or "
        "the whole to bigsmic.interop.anndata.cluster"
    )


def _dataset(data: Any) -> str:
    names = [str(name) for name, variable in data.data_vars.items() if getattr(variable, "ndim", 0) == 2]
    return (
        f"got a Dataset, which holds many arrays; pass one of them, such as ds[{(names or ['X'])[0]!r}]; the "
        f"two-dimensional ones are {names[:NAMED]}"
    )


def is_frame(data: Any) -> bool:
    """Whether the rows are a DataFrame of pandas or dask."""
    return hasattr(data, "iloc") and hasattr(data, "columns")


def is_dask_frame(data: Any) -> bool:
    """Whether the rows are a dask dataframe."""
    return hasattr(type(data), "to_dask_array") and hasattr(data, "columns")  # a Delayed has any attribute


def _is_of_polars(data: Any, name: str) -> bool:
    return type(data).__module__.partition(".")[0] == "polars" and type(data).__name__ == name


def _is_mixed(data: Any) -> bool:
    return (is_frame(data) or _is_of_polars(data, "DataFrame")) and bool(words_of(data))


def words_of(data: Any) -> list[str]:
    """Names of the columns of a DataFrame of pandas, dask or polars that are not numbers."""
    return [name for name, dtype in zip(data.columns, data.dtypes, strict=True) if _is_wordy(dtype)]


def _is_wordy(dtype: Any) -> bool:
    if hasattr(dtype, "is_numeric"):  # of polars
        return not (dtype.is_numeric() or str(dtype) == "Boolean")
    return getattr(dtype, "kind", "O") not in "iufb"


def _mixed(data: Any) -> str:
    numbers, indicators = (
        ("df.select_dtypes('number', 'timedelta')", "pandas.get_dummies(df)")
        if is_frame(data)
        else ("df.select(polars.selectors.numeric())", "df.to_dummies()")
    )
    return (
        f"got a DataFrame whose columns {words_of(data)[:NAMED]} are not numbers; "
        f"pass {numbers}, or {indicators}, which has an indicator for every word"
    )


_REFUSED = (
    (lambda data: _is_of_polars(data, "LazyFrame"), lambda data: "got a LazyFrame; pass df.collect()"),
    (is_masked, lambda data: "the array has masked entries; drop or impute their rows"),
    (_is_sparse_dask, _sparse_dask),
    (_is_sparse, _sparse),
    (lambda data: hasattr(data, "obsm") and hasattr(data, "obs"), _anndata),
    (lambda data: hasattr(data, "data_vars"), _dataset),
    (_is_mixed, _mixed),
)


def is_window_group(group: Any) -> bool:
    """Whether a group holds windows and their features."""
    return isinstance(dict(getattr(group, "attrs", {})).get(WINDOWS), dict)


def choose_member(group: Any, component: str | None, name: str) -> Any:
    """One array of a Zarr or HDF5 group; the features, if it is a group of windows.

    Parameters
    ----------
    group : mapping of str to array or group
    component : str or None
        Path of the array within the group.
    name : str
        Name of the group in messages.

    Raises
    ------
    InputError
        `component` is missing, or the group has no such array; the message lists the names that exist.
    """
    if component is None and is_window_group(group):
        component = WINDOW_ROWS
    if component is None:
        raise InputError(f"input: {name} is a group {_offer(group)}; name one with component=")
    try:
        found = group[component]
    except KeyError:
        raise InputError(f"input: {name} has no component={component!r}: it is a group {_offer(group)}") from None
    if not hasattr(found, "shape"):
        raise InputError(f"input: component={component!r} of {name} is {_encoded(found)}")
    return found


def _encoded(group: Any) -> str:
    """Description of a group for a message: AnnData's sparse matrices and tables by name, other groups by contents."""
    kind = dict(group.attrs).get("encoding-type")
    if kind in ("csr_matrix", "csc_matrix"):
        return "a sparse matrix, which is not taken; pass dense rows, such as component='obsm/X_pca' of scanpy.pp.pca"
    if kind == "dataframe":
        return "a table; pass its columns as one array, such as anndata.io.read_elem(group[component]).to_numpy()"
    return f"a group {_offer(group)}; name one of those"


def _offer(group: Any) -> str:
    """Names of the members of a group, two-dimensional arrays first."""
    ranks = {key: len(getattr(member, "shape", ())) for key, member in _members(group)}
    arrays = sorted((key for key, rank in ranks.items() if rank), key=lambda key: (ranks[key] != 2, key))
    groups = sorted(key for key, rank in ranks.items() if not rank)
    return f"with arrays {arrays[:NAMED]}" + (f" and groups {groups[:NAMED]}" if groups else "")


def _members(group: Any) -> Any:
    """Names and members of a group, of HDF5 (a mapping) or of Zarr."""
    return group.items() if hasattr(type(group), "items") else group.members()
