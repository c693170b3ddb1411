"""What attributes say that stored numbers stand for: the same as xarray makes of them."""

import warnings

import numpy as np
import pytest
import xarray
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import bigsmic
from bigsmic.errors import InputError, NonFiniteError, RunMismatchError
from bigsmic.store import open_source

INTEGERS = ("i1", "i2", "i4", "i8", "u1", "u2", "u4")
FLOATS = ("f4", "f8")


def write(folder, values, encoding, zarr_format):
    """Write values by xarray; the place of the archive."""
    dataset = xarray.Dataset({"X": (("row", "column"), values)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of consolidated metadata, and of fill values that xarray drops
        dataset.to_zarr(folder, mode="w", encoding={"X": encoding}, zarr_format=zarr_format)
    return folder


def read_by_xarray(folder):
    with warnings.catch_warnings(), xarray.open_zarr(folder) as dataset:
        warnings.simplefilter("ignore")
        return dataset["X"].to_numpy()


@st.composite
def encodings(draw):
    """Encodings that xarray writes, of dtypes, scalings and marks of missing entries."""
    dtype = np.dtype(draw(st.sampled_from(INTEGERS + FLOATS)))
    encoding = {"dtype": dtype}
    if draw(st.booleans()):
        encoding["scale_factor"] = draw(st.sampled_from((0.5, 0.01, 2.0, np.float32(0.1))))
    if draw(st.booleans()):
        encoding["add_offset"] = draw(st.sampled_from((10.0, -3.25, np.float32(1.5))))
    marks = [7, 100] + ([-1, -99] if dtype.kind != "u" else [255]) + ([1e20] if dtype.kind == "f" else [])
    for name in draw(st.sampled_from(((), ("_FillValue",), ("missing_value",), ("_FillValue", "missing_value")))):
        encoding[name] = encoding.get("_FillValue", dtype.type(draw(st.sampled_from(marks))))
    if dtype.kind == "u" and "_FillValue" in encoding and draw(st.booleans()):
        encoding |= {"dtype": np.dtype(f"i{dtype.itemsize}"), "_Unsigned": "true"}
        encoding["_FillValue"] = np.dtype(f"i{dtype.itemsize}").type(-1)
        encoding.pop("missing_value", None)
    return encoding


@given(encodings(), st.sampled_from((2, 3)), st.integers(0, 2**32 - 1))
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_blocks_are_what_xarray_reads(tmp_path, encoding, zarr_format, seed):
    rng = np.random.default_rng(seed)
    scale, offset = encoding.get("scale_factor", 1), encoding.get("add_offset", 0)
    values = rng.integers(0, 100, (20, 3)) * float(scale) + float(offset)
    if "_FillValue" in encoding or "missing_value" in encoding:
        values[rng.random(values.shape) < 0.3] = np.nan
    folder = write(tmp_path / "a.zarr", values, encoding, zarr_format)
    wanted = read_by_xarray(folder)
    source = open_source(folder, "X")
    found = source.read(0, 20)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(source.read(5, 9), wanted[5:9])
    assert found.dtype == source.dtype
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(open_source(zarr.open_array(f"{folder}/X", mode="r")).read(0, 20), wanted)


def packed(folder, missing=False, zarr_format=3):
    """Three groups of rows, packed in two bytes."""
    centers = np.repeat([0.0, 4.0, 8.0], 60)[:, None]
    values = centers + np.random.default_rng(0).normal(0, 0.3, (180, 4))
    values[100:103, 2] = np.nan if missing else values[100:103, 2]
    encoding = {"dtype": "i2", "scale_factor": 0.001, "add_offset": 5.0, "_FillValue": np.int16(-32768)}
    return write(folder, values, encoding, zarr_format)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_missing_entries_are_found_and_refused(tmp_path, zarr_format):
    folder = packed(tmp_path / "a.zarr", missing=True, zarr_format=zarr_format)
    with pytest.raises(NonFiniteError, match=r"-32768 read as missing.*first at row 100, column 2; 3 entries"):
        bigsmic.fit(folder, 3, component="X", n_threads=1)


def test_what_is_decoded_is_said_and_belongs_to_the_run(tmp_path):
    folder, out = packed(tmp_path / "a.zarr") / "X", tmp_path / "run"
    said = bigsmic.plan(folder, 3).decoded
    assert said == "scale_factor 0.001, add_offset 5, -32768 read as missing"
    result = bigsmic.fit(folder, 3, n_threads=1, out=out)
    assert [len(set(result.labels[part * 60 : part * 60 + 60])) for part in range(3)] == [1, 1, 1]
    identity = zarr.open_group(out, mode="r").attrs["identity"]["input"]
    assert identity["dtype"] == "<f8"
    assert identity["decoded"] == {"dtype": "<f8", "missing": [-32768], "scale_factor": 0.001, "add_offset": 5.0}
    zarr.open_array(folder).attrs["scale_factor"] = 0.002
    with pytest.raises(RunMismatchError, match="scale_factor"):
        bigsmic.fit(folder, 3, n_threads=1, out=out)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_an_archive_without_such_attributes_is_taken_as_it_is(tmp_path, zarr_format):
    """Zeros are no missing entries where only Zarr's own fill value is 0."""
    array = zarr.create_array(tmp_path / "a.zarr", shape=(10, 2), dtype="i2", zarr_format=zarr_format)
    array[:] = np.arange(20).reshape(10, 2)
    source = open_source(tmp_path / "a.zarr")
    assert source.describe() == {"rows": 10, "columns": 2, "dtype": "<i2"}
    assert source.decoded == ""


def test_floats_whose_missing_entries_are_nan_need_no_decoding(tmp_path):
    folder = write(tmp_path / "a.zarr", np.random.default_rng(0).normal(size=(9, 2)), {}, 3)
    assert "decoded" not in open_source(folder, "X").describe()


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"units": "days since 2000-01-01"}, "holds times"),
        ({"dtype": "timedelta64[ns]", "units": "seconds"}, "timedelta64"),
        ({"scale_factor": "a tenth"}, "attribute scale_factor"),
        ({"scale_factor": [1.0, 2.0]}, "attribute scale_factor"),
        ({"missing_value": "n/a"}, "attribute missing_value"),
    ],
)
def test_attributes_that_cannot_be_acted_upon(tmp_path, attributes, message):
    zarr.create_array(tmp_path / "a.zarr", shape=(4, 2), dtype="i4", attributes=attributes)[:] = 1
    with pytest.raises(InputError, match=message):
        open_source(tmp_path / "a.zarr")


def test_durations_are_numbers(tmp_path):
    zarr.create_array(tmp_path / "a.zarr", shape=(4, 2), dtype="f4", attributes={"units": "seconds"})[:] = 1
    assert open_source(tmp_path / "a.zarr").dtype == np.float32


@pytest.mark.parametrize(("attribute", "wanted"), [(255, 254.0), (-1, 254.0), ([-1, 3], 254.0)])
def test_unsigned_integers_in_signed_ones(tmp_path, attribute, wanted):
    attributes = {"_Unsigned": "true", "missing_value": attribute}
    array = zarr.create_array(tmp_path / "a.zarr", shape=(1, 2), dtype="i1", attributes=attributes)
    array[:] = [[-2, -1]]
    np.testing.assert_array_equal(open_source(tmp_path / "a.zarr").read(0, 1), [[wanted, np.nan]])
