"""What may be handed in for rows: read in blocks where it can be, refused in one line where it cannot."""

import pickle
from types import SimpleNamespace

import anndata
import dask.array
import dask.dataframe
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse
import xarray
import zarr
from small_fits import FAST
from suggested import run_suggested

import bigsmic
from bigsmic.errors import InputError, StorageError
from bigsmic.store import open_source

ROWS = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)


def masked(X=ROWS):
    return np.ma.masked_array(X, np.arange(X.size).reshape(X.shape) == 7)


# -- read in blocks


class Tracked(xarray.backends.BackendArray):
    """A lazy array of a backend of xarray, which notes how many rows are asked for."""

    def __init__(self, values):
        self.values, self.shape, self.dtype, self.asked = values, values.shape, values.dtype, []

    def __getitem__(self, key):
        return xarray.core.indexing.explicit_indexing_adapter(
            key, self.shape, xarray.core.indexing.IndexingSupport.BASIC, self._read
        )

    def _read(self, key):
        found = self.values[key]
        self.asked.append(len(found))
        return found


def test_a_lazy_variable_of_xarray_is_never_held(blobs, many_blocks):
    backend = Tracked(blobs[0])
    variable = xarray.Variable(("row", "column"), xarray.core.indexing.LazilyIndexedArray(backend))
    result = bigsmic.fit(xarray.DataArray(variable), 4, t=(3,), n_centers=40, n_threads=1)
    wanted = bigsmic.fit(blobs[0], 4, t=(3,), n_centers=40, n_threads=1)
    assert np.array_equal(result.labels, wanted.labels)
    assert max(backend.asked) <= 256
    assert not isinstance(variable._data, np.ndarray)
    backend.asked.clear()
    bigsmic.SMIC(4, t=(3,), n_jobs=1, random_state=0).fit(xarray.DataArray(variable))
    assert max(backend.asked) <= 256


class Slices:
    """An HDF5 dataset whose slices are counted, and that does not become an array as a whole."""

    def __init__(self, patch):
        self.asked, read = [], h5py.Dataset.__getitem__

        def counted(dataset, key, *more, **options):
            found = read(dataset, key, *more, **options)
            self.asked.append(len(found))
            return found

        patch.setattr(h5py.Dataset, "__getitem__", counted)
        patch.setattr(h5py.Dataset, "__array__", None)


@pytest.mark.parametrize("chunks", [None, (20, 5), (700, 1)])
def test_a_dataset_of_hdf5_is_read_in_blocks(tmp_path, monkeypatch, blobs, many_blocks, chunks):
    monkeypatch.setattr("bigsmic.store.admission.LARGE_BAND", 700 * 4)
    wanted = bigsmic.fit(blobs[0], 3, method="mspc", n_threads=1)
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file.create_dataset("X", data=blobs[0], chunks=chunks)
    slices = Slices(monkeypatch)
    with h5py.File(tmp_path / "rows.h5") as file:
        for given in ({"data": file, "component": "X"}, {"data": file["X"]}):
            result = bigsmic.fit(**given, c=3, method="mspc", n_threads=1)
            assert np.array_equal(result.labels, wanted.labels)
    assert max(slices.asked) <= 256


def test_bands_of_tall_chunks_are_read_once(tmp_path, monkeypatch, blobs):
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file.create_dataset("X", data=blobs[0], chunks=(350, 5))
    slices = Slices(monkeypatch)
    with h5py.File(tmp_path / "rows.h5") as file:
        source = open_source(file["X"])
        found = [source.read(lo, lo + 70) for lo in range(0, 700, 70)]
    assert np.array_equal(np.concatenate(found), blobs[0])
    assert slices.asked == [350, 350]


def test_bands_are_dropped_when_the_stage_that_reads_them_ends(tmp_path, blobs):
    """Later stages are planned without them."""
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file.create_dataset("X", data=blobs[0], chunks=(350, 5))
    begun, held = set(), {}
    with h5py.File(tmp_path / "rows.h5") as file:
        source = open_source(file["X"])

        def look(stage, done, total):
            if stage not in begun:
                held[stage] = len(source._bands)
            begun.add(stage)

        bigsmic.fit(source, 4, progress=look, **FAST | {"n_threads": 1})
    assert held["graph"] == 0, held


def test_packed_numbers_of_netcdf_in_hdf5(tmp_path):
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        X = file.create_dataset("X", data=np.arange(6, dtype=np.int16).reshape(3, 2))
        X.attrs.update({"scale_factor": np.float32(0.5), "add_offset": np.float32(1), "_FillValue": np.int16([4])})
        source = open_source(X)
        assert np.array_equal(source.read(0, 3), [[1, 1.5], [2, 2.5], [np.nan, 3.5]], equal_nan=True)
        assert source.dtype == np.float32
        assert source.describe()["decoded"]["missing"] == [4]


def test_a_variable_of_dask_blocks_is_read_by_dask():
    array = xarray.DataArray(dask.array.from_array(ROWS, chunks=(20, 3)))
    assert type(open_source(array)).__name__ == "DaskSource"
    assert np.array_equal(open_source(array).read(15, 35), ROWS[15:35])


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (
            lambda rows: rows[:-1],
            r"rows 0 to 29 of the dask array have shape \(29, 3\) once computed, and \(30, 3\) by",
        ),
        (lambda rows: np.repeat(rows, 2, axis=0), r"have shape \(50, 3\) once computed, and \(30, 3\) by its chunks"),
        (
            lambda rows: rows[:, :2],
            r"have shape \(30, 2\) once computed, and \(30, 3\) by its chunks; call \.compute_c",
        ),
        (lambda rows: rows.astype(object), "have dtype object once computed, and float64 by its meta; convert its"),
    ],
)
def test_blocks_that_are_not_what_the_dask_array_says_are_refused(block, message):
    array = dask.array.from_array(ROWS.astype(np.float64), chunks=(20, 3))
    array = array.map_blocks(block, chunks=array.chunks, meta=np.empty((0, 0)))
    with pytest.raises(InputError, match=message):
        open_source(array).read(0, 30)


def test_an_absent_chunk_of_a_zarr_array_behind_a_dask_array_is_an_error(tmp_path):
    zarr.create_array(tmp_path / "X", data=ROWS, chunks=(20, 3))
    array = dask.array.from_zarr(str(tmp_path / "X"))
    (tmp_path / "X" / "c" / "1" / "0").unlink()
    for source in (open_source(array + 0), open_source(xarray.DataArray(array))):
        assert np.array_equal(source.read(40, 60), ROWS[40:])
        again = pickle.loads(pickle.dumps(source))
        for reading in (source, again):
            with pytest.raises(
                StorageError, match=r"rows 15:35 of the dask array .* chunk .*c/1/0 is missing, and would"
            ):
                reading.read(15, 35)
    filled = open_source(array, missing_chunks="fill").read(15, 45)
    assert np.array_equal(filled, np.where(np.arange(15, 45)[:, None] // 20 == 1, 0, ROWS[15:45]))


def test_a_persisted_dask_array_is_read_from_its_cluster():
    from distributed import Client, LocalCluster

    with LocalCluster(n_workers=1, processes=False, dashboard_address=":0") as cluster, Client(cluster) as client:
        array = client.persist(dask.array.from_array(ROWS, chunks=(20, 3)) + 0)
        source = open_source(array)
        assert not source.travels
        assert np.array_equal(source.read(15, 35), ROWS[15:35])


def test_what_an_array_of_another_library_cannot_read_is_an_error_of_the_store(tmp_path):
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        source = open_source(file.create_dataset("X", data=ROWS))
    with pytest.raises(StorageError, match=r"rows 3:5 of h5py Dataset could not be read"):
        source.read(3, 5)


# -- refused


def frame(**columns):
    return pd.DataFrame(dict.fromkeys("ab", np.arange(9.0)) | columns)


@pytest.mark.parametrize(
    "columns",
    [
        {"member": np.arange(9) % 2 == 0},
        {"count": pd.array(range(9), dtype="Int64")},
        {"word": list("abcabcabc")},
    ],
    ids=["truth values", "integers that may be missing", "indicators of words"],
)
def test_columns_of_a_frame_that_numbers_can_hold_are_read(columns):
    table = pd.get_dummies(frame(**columns))
    source = open_source(table)
    assert source.dtype == np.float64
    np.testing.assert_array_equal(source.read(2, 7), table.to_numpy(np.float64)[2:7])
    assert source.column_names == list(table.columns)


def test_a_missing_number_of_a_frame_is_not_a_number():
    source = open_source(frame(count=pd.array([None, *range(8)], dtype="Int64")))
    assert np.isnan(source.read(0, 9)[0, 2])


def group():
    opened = zarr.open_group({}, mode="w")
    opened.create_array("X", shape=(9, 2), dtype="f4")
    opened.create_array("A", shape=(9,), dtype="f4")
    opened.create_group("more")
    return opened


def of_polars(kind):
    """What is seen of a frame of polars, which is not installed."""
    dtypes = [SimpleNamespace(is_numeric=lambda: True), SimpleNamespace(is_numeric=lambda: False)]
    return type(kind, (), {"__module__": "polars.frame", "columns": ["a", "day"], "dtypes": dtypes})()


REFUSED = {
    "masked": (masked, "masked entries; drop or impute"),
    "masked dask": (
        lambda: dask.array.from_array(masked(), chunks=(20, 3)),
        "masked entries, first at row 2, column 1",
    ),
    "sparse matrix": (
        lambda: scipy.sparse.csr_matrix(ROWS),
        r"sparse rows \(csr_matrix of shape \(60, 3\)\).*X.toarray",
    ),
    "sparse array": (lambda: scipy.sparse.coo_array(ROWS), r"X\.toarray\(\), or fewer columns"),
    "sparse dask": (
        lambda: dask.array.from_array(ROWS, chunks=(20, 3)).map_blocks(scipy.sparse.csr_matrix),
        r"block\.toarray\(\)",
    ),
    "anndata": (lambda: anndata.AnnData(ROWS, obsm={"X_pca": ROWS}), r"such as adata\.obsm\['X_pca'\]"),
    "anndata alone": (lambda: anndata.AnnData(ROWS), r"such as adata\.X"),
    "dask dataframe of words": (
        lambda: dask.dataframe.from_pandas(frame(name=list("abcdefghi")), npartitions=2),
        r"columns \['name'\] are not numbers",
    ),
    "dask series": (lambda: dask.dataframe.from_pandas(frame(), npartitions=2).iloc[:, 0], r"got shape \(9,\)"),
    "dataset": (lambda: xarray.Dataset({"one": ("row", ROWS[:, 0]), "X": (("row", "column"), ROWS)}), r"ds\['X'\]"),
    "frame of words": (lambda: frame(name=list("abcdefghi")), r"columns \['name'\] are not numbers"),
    "frame of times": (lambda: frame(day=pd.date_range("2020", periods=9)), r"columns \['day'\] are not numbers"),
    "polars times": (lambda: of_polars("DataFrame"), r"columns \['day'\] .*polars\.selectors"),
    "polars lazy": (lambda: of_polars("LazyFrame"), r"got a LazyFrame; pass df\.collect\(\)"),
    "zarr group": (group, r"is a group with arrays \['X', 'A'\] and groups \['more'\]; name one with component="),
    "times": (lambda: xarray.DataArray(np.zeros((3, 2), "M8[ns]")), "not real or integer"),
}


def test_fields_are_refused_with_what_makes_columns_of_them():
    with pytest.raises(InputError, match=r"with the fields \('a', 'b'\); .*structured_to_unstructured\(X\)"):
        open_source(frame().to_records(index=False))


def test_the_columns_that_a_refusal_leaves_are_read():
    """Durations are numbers for pandas."""
    table = frame(lasted=pd.to_timedelta(np.arange(9), unit="s"))
    with pytest.raises(InputError, match=r"columns \['lasted'\] are not numbers; pass df\.select_dtypes\(") as refusal:
        open_source(table)
    pick = str(refusal.value).partition("pass df.")[2].partition(", or ")[0]
    assert open_source(eval(f"df.{pick}", {"df": table})).column_names == ["a", "b"]


@pytest.mark.parametrize("name", REFUSED)
def test_what_holds_no_rows_is_refused_at_once(name):
    make, message = REFUSED[name]
    with pytest.raises(InputError, match=message):
        bigsmic.fit(make(), 2)


@pytest.mark.parametrize("name", sorted(set(REFUSED) - {"sparse dask"}))
def test_estimators_refuse_it_too(name):
    make, message = REFUSED[name]
    with pytest.raises(InputError, match=message):
        bigsmic.RIM(2).fit(make())


def test_the_rows_of_a_dask_dataframe_are_counted():
    lazy = dask.dataframe.from_pandas(frame(), npartitions=2)
    found, wanted = (bigsmic.RIM(2, random_state=0).fit(rows).labels_ for rows in (lazy, frame().to_numpy()))
    assert np.array_equal(found, wanted)
    assert np.array_equal(bigsmic.fit(lazy, 2, method="rim").labels, wanted)


def test_truth_values_beside_numbers_in_a_dask_dataframe():
    mixed = frame(high=np.arange(9) > 4)
    source = open_source(dask.dataframe.from_pandas(mixed, npartitions=2))
    assert np.array_equal(source.read(0, 9), mixed.to_numpy(np.float64))


def test_masks_without_masked_entries_and_frames_of_numbers_are_rows():
    assert np.array_equal(open_source(np.ma.masked_array(ROWS)).read(0, 60), ROWS)
    assert np.array_equal(open_source(frame()).read(0, 9), frame().to_numpy())


def test_predict_refuses_masked_rows():
    model = bigsmic.RIM(2, random_state=0).fit(ROWS)
    for predict in (model.predict, model.result_.predict):
        with pytest.raises(InputError, match="masked entries"):
            predict(masked())


# -- names


def test_a_component_of_what_has_none(tmp_path):
    zarr.create_array(tmp_path / "a.zarr", data=ROWS)
    for data in (tmp_path / "a.zarr", zarr.open_array(tmp_path / "a.zarr"), ROWS):
        with pytest.raises(InputError, match=r"component='X'.*leave it out"):
            bigsmic.fit(data, 2, component="X")


def test_a_component_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match=r"no component='Y': it is a group with arrays \['X', 'A'\]"):
        bigsmic.fit(group(), 2, component="Y")
    with pytest.raises(InputError, match=r"component='more' of .* is a group with arrays \[\]"):
        bigsmic.fit(group(), 2, component="more")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["X"] = ROWS
        with pytest.raises(InputError, match=r"h5py.*with arrays \['X'\]; name one with component="):
            bigsmic.fit(file, 2)


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("rows.npz", r"in Python, pass numpy\.load\('.*/rows\.npz'\)\['X'\]"),
        ("rows.h5", r"in Python, pass h5py\.File\('.*/rows\.h5'\)\['X'\]"),
        ("rows.zip", r"unzip it, or, in Python, pass zarr\.open_array\(zarr\.storage\.ZipStore\('.*', mode='r'\)\)"),
        ("rows.txt", r"give the path or URL of a Zarr array, .* or of a \.npy, \.csv, \.tsv or \.parquet file"),
    ],
)
def test_a_file_of_another_kind_is_refused_with_what_opens_it(tmp_path, name, remedy):
    (tmp_path / name).write_bytes(b"of another kind")
    with pytest.raises(InputError, match=rf"could not be opened as Zarr.*; {remedy}"):
        bigsmic.fit(tmp_path / name, 2)


def in_hdf5(path):
    with h5py.File(path, "w") as file:
        file["X"] = ROWS


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("rows.npz", lambda path: np.savez(path, X=ROWS)),
        ("rows.h5", in_hdf5),
        ("rows.mat", lambda path: scipy.io.savemat(path, {"X": ROWS})),
        ("rows.nc", lambda path: xarray.Dataset({"X": (("row", "column"), ROWS)}).to_netcdf(path)),
    ],
)
def test_the_command_in_a_refusal_writes_a_file_that_is_read(tmp_path, name, write):
    write(str(tmp_path / name))
    with pytest.raises(InputError, match="in a shell, copy that array to a file that is read by its path") as refused:
        open_source(tmp_path / name)
    run_suggested(refused.value)
    assert np.array_equal(open_source(tmp_path / "rows.npy").read(0, 60), ROWS)


def test_an_archive_in_a_zip_file(tmp_path):
    with zarr.storage.ZipStore(tmp_path / "rows.zip", mode="w") as store:
        zarr.create_array(store, data=ROWS, chunks=(20, 3))
    with zarr.storage.ZipStore(tmp_path / "rows.zip", mode="r") as store:
        assert np.array_equal(open_source(zarr.open_array(store, mode="r")).read(15, 35), ROWS[15:35])


# -- shards


@pytest.mark.parametrize("place", ["start", "end"])
@pytest.mark.parametrize("chunks", [(10, 2), (20, 3)])
def test_a_chunk_that_is_absent_from_its_shard_is_an_error(tmp_path, place, chunks):
    shards = zarr.codecs.ShardingCodec(chunk_shape=chunks, index_location=place)
    X = ROWS.copy()
    X[20:40] = 0
    outer = (40, 4) if chunks == (10, 2) else (40, 3)
    array = zarr.create(store=str(tmp_path / "a.zarr"), shape=X.shape, chunks=outer, dtype="f4", codecs=[shards])
    array[:] = X
    source = open_source(tmp_path / "a.zarr")
    assert np.array_equal(source.read(40, 60), X[40:])
    rows = f"{20}:{20 + chunks[0]}"
    message = rf"chunk of rows {rows} and columns 0:{chunks[1]} of .* is missing from the shard c/0/0.*='fill'"
    for lo, hi in ((0, 30), (22, 24), (0, 60)):
        with pytest.raises(StorageError, match=message):
            source.read(lo, hi)
    assert np.array_equal(open_source(tmp_path / "a.zarr", missing_chunks="fill").read(0, 60), X)


def test_an_absent_shard_is_an_error(tmp_path):
    array = zarr.create_array(tmp_path / "a.zarr", shape=(60, 3), chunks=(10, 3), shards=(20, 3), dtype="f4")
    array[:20] = ROWS[:20]
    source = open_source(tmp_path / "a.zarr")
    source.read(0, 20)
    with pytest.raises(StorageError, match=r"chunk c/1/0 \(rows 20:40\).*missing_chunks='fill'"):
        source.read(10, 30)


def test_shards_that_are_encoded_once_more_are_refused(tmp_path):
    codecs = [zarr.codecs.ShardingCodec(chunk_shape=(10, 3)), zarr.codecs.GzipCodec()]
    with pytest.warns(UserWarning, match="disables partial reads"):
        zarr.create(store=str(tmp_path / "a.zarr"), shape=(60, 3), chunks=(20, 3), dtype="f4", codecs=codecs)
    with (
        pytest.warns(UserWarning, match="disables partial reads"),
        pytest.raises(InputError, match="a further codec encodes the shards"),
    ):
        open_source(tmp_path / "a.zarr")


# -- numbers


@pytest.mark.parametrize(("dtype", "base"), [("u8", 2**63), ("u8", 2**64 - 100), ("i8", -(2**63))])
def test_integers_beyond_the_digits_of_floats_are_told_apart(dtype, base):
    which = np.repeat([0, 30], 60)
    small = np.random.default_rng(0).integers(0, 8, (120, 3)) + which[:, None]
    X = np.array([[base + int(v) for v in row] for row in small], dtype)
    for method in ("smic", "mspc"):
        result = bigsmic.fit(X, 2, method=method, n_threads=1)
        assert len({*zip(result.labels.tolist(), which.tolist(), strict=True)}) == 2
        assert np.array_equal(result.labels, bigsmic.fit(small, 2, method=method, n_threads=1).labels)
        assert (result.predict(X) == result.labels).mean() > 0.9


def test_a_few_rows_of_many_columns_are_warned_of():
    with pytest.warns(bigsmic.errors.BigsmicWarning, match=r"got 6 rows of 500 columns; .* pass the transpose, X\.T"):
        bigsmic.plan(np.random.default_rng(0).normal(size=(6, 500)), 2)
