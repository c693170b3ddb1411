"""Fits of DataArrays, and results with the coordinates of their rows."""

import builtins
import copy
import pickle

import dask.array
import numpy as np
import pandas as pd
import pytest
import xarray
import zarr
from small_fits import BRIEF, cut_small

import bigsmic
from bigsmic.errors import InputError

TIMES = pd.date_range("2026-01-01", periods=700, freq="s")


@pytest.fixture(scope="module")
def rows(blobs):
    probe = ("time", np.repeat(["a", "b"], 350))
    coords = {"time": TIMES, "probe": probe, "channel": list("vwxyz"), "gain": 2.5}
    return xarray.DataArray(blobs[0], dims=("time", "channel"), coords=coords, name="X")


@pytest.fixture(scope="module")
def result(rows):
    with pytest.MonkeyPatch.context() as patch:
        cut_small(patch)
        return bigsmic.fit(rows, 4, noise=True, **BRIEF)


def test_the_dataset_has_the_rows_coordinates_and_what_the_fit_found(result, rows):
    found = result.to_xarray()
    assert dict(found.sizes) == {"time": 700, "cluster": 4}
    assert set(found.coords) == {"time", "probe", "gain", "cluster"}
    assert np.array_equal(found["label"], result.labels)
    assert np.array_equal(found["noise"], result.noise)
    assert np.array_equal(found["posterior"].transpose("time", "cluster"), np.asarray(result.posterior))
    assert found["posterior"].sel(time=TIMES[41], cluster=2) == result.posterior[41, 2]
    assert xarray.align(found["label"], rows, join="exact")
    assert found.attrs == {"run": result.location, "method": "smic", "n_clusters": 4}
    assert found["label"].groupby("probe").count().sizes == {"probe": 2}


def test_its_variables_are_read_when_they_are_used(result, monkeypatch):
    kind, asked = type(result.posterior), []
    read = kind._read
    monkeypatch.setattr(kind, "_read", lambda array, *blocks: asked.append(blocks) or read(array, *blocks))
    found = result.to_xarray()["posterior"]
    assert asked == []
    found[300:310].load()
    assert asked == [(1, 2)]


def stored(rows, path):
    rows.drop_vars(["probe", "channel"]).to_dataset().to_zarr(
        path, encoding={"X": {"chunks": (100, 5)}}, zarr_format=3, consolidated=False
    )
    return path


@pytest.mark.parametrize("chunks", [None, {}, {"time": 200}])
def test_lazy_arrays_give_the_same_labels_and_their_coordinates(
    result, rows, tmp_path, many_blocks, monkeypatch, chunks
):
    lazy = xarray.open_zarr(stored(rows, tmp_path / "X.zarr"), chunks=chunks, consolidated=False)["X"]
    read = []
    whole = np.asarray

    def counted(values, *args, **options):
        found = whole(values, *args, **options)
        if found.ndim == 2 and found.shape[1] == 5:
            read.append(len(found))
        return found

    monkeypatch.setattr(np, "asanyarray", counted)
    found = bigsmic.fit(lazy, 4, noise=True, **BRIEF)
    assert max(read, default=0) <= 256
    assert not isinstance(lazy.variable._data, np.ndarray)
    assert np.array_equal(found.labels, result.labels)
    assert found.to_xarray()["label"].indexes["time"].equals(TIMES.rename("time"))


def test_copies_cuts_pickles_and_saved_ones_know_the_coordinates(result, tmp_path):
    for other in (
        copy.copy(result),
        copy.deepcopy(result),
        result.cut(3),
        pickle.loads(pickle.dumps(result)),
        result.save(tmp_path / "run.zarr"),
    ):
        assert other.to_xarray().indexes["time"].equals(TIMES.rename("time"))


def test_a_run_that_is_opened_takes_the_coordinates_that_it_is_given(result, rows, tmp_path):
    saved = result.save(tmp_path / "run.zarr")
    opened = bigsmic.Result.open(saved.location)
    assert dict(opened.to_xarray().sizes) == {"row": 700, "cluster": 4}
    assert set(opened.to_xarray().coords) == {"cluster"}
    assert opened.to_xarray(rows).indexes["time"].equals(TIMES.rename("time"))
    with pytest.raises(InputError, match="coordinates of 699 rows, but the fit has 700; give the rows of the fit"):
        opened.to_xarray(rows[:699])
    with pytest.raises(InputError, match="like: got ndarray of 2 dimensions; give a DataArray"):
        opened.to_xarray(rows.values)


def test_rows_of_a_part_have_the_coordinates_of_the_part(rows):
    first = bigsmic.fit(rows, 3, method="mspc", rows=slice(0, 500)).to_xarray()
    assert np.array_equal(first["time"], rows["time"][:500])
    found = bigsmic.fit(rows, 3, method="mspc", rows=slice(-200, None))
    assert found.to_xarray().indexes["time"].equals(TIMES[-200:].rename("time"))
    assert found.to_xarray(rows[-200:]).indexes["time"].equals(TIMES[-200:].rename("time"))
    with pytest.raises(InputError, match="coordinates of 300 rows, but the fit has 200"):
        found.to_xarray(rows[:300])


def test_a_multi_index_is_kept(rows, result):
    stacked = rows.drop_vars(["time", "probe"]).assign_coords(
        xarray.Coordinates.from_pandas_multiindex(
            pd.MultiIndex.from_product([range(7), range(100)], names=["day", "spike"]), "time"
        )
    )
    found = result.to_xarray(stacked)
    assert found.sel(day=3, spike=41)["label"] == result.labels[341]


def test_coordinates_that_are_called_as_a_variable_are_refused(rows, result):
    named = rows.assign_coords(label=("time", np.zeros(700)))
    with pytest.raises(InputError, match=r"coordinates \['label'\].*like=rows.rename\(label='true_label'\)"):
        result.to_xarray(named)
    assert "true_label" in result.to_xarray(named.rename(label="true_label")).coords
    with pytest.raises(InputError, match=r"coordinates \['cluster'\]"):
        result.to_xarray(rows.rename(time="cluster"))


def test_clusters_have_the_names_that_they_were_given(rows, result, tmp_path):
    saved = result.save(tmp_path / "run.zarr").set_names({2: "idle"})
    found = saved.to_xarray(rows)
    assert found["name"].dims == ("cluster",)
    assert found["name"].values.tolist() == ["", "", "idle", ""]
    called = rows.assign_coords(name=("time", np.zeros(700)))
    assert result.to_xarray(called)["name"].dims == ("time",)
    with pytest.raises(InputError, match=r"coordinates \['name'\].*like=rows\.rename\(name='true_name'\)"):
        saved.to_xarray(called)


def test_other_rows_have_no_coordinates(blobs, tmp_path):
    zarr.create_array(tmp_path / "X.zarr", data=blobs[0])
    for data in (blobs[0], tmp_path / "X.zarr", dask.array.from_array(blobs[0])):
        assert set(bigsmic.fit(data, 4, method="mspc").to_xarray().coords) == {"cluster"}


def test_a_fit_without_labels_has_no_dataset(blobs):
    with pytest.raises(InputError, match="to_xarray: the fit was given no number of clusters"):
        bigsmic.fit(blobs[0], valleys=False, **BRIEF).to_xarray()


def test_without_xarray_it_says_what_to_install(result, monkeypatch):
    load = builtins.__import__

    def refuse(name, *args, **options):
        if name == "xarray":
            raise ImportError(name)
        return load(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(InputError, match=r"pip install 'bigsmic\[xarray\]'"):
        result.to_xarray()
