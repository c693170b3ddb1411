"""Arrays that come beside the rows, as files of text."""

import numpy as np
import pytest
import zarr

from bigsmic.errors import InputError, StorageError
from bigsmic.methods.rim.side_inputs import checked_side_inputs
from bigsmic.store.side_inputs import read_array

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1\n-1\n3\n", np.array([1, -1, 3])),
        ("label\n1\n2\n", np.array([1, 2])),
        ("i,j\n0,5\n7,2\n", np.array([[0, 5], [7, 2]])),
        ("0.5\n2\n1e-3\n", np.array([0.5, 2.0, 0.001])),
        ("weight\n0.5\n", np.array([0.5])),
        ("row 1,row 2\n0,5\n", np.array([[0, 5]])),
        ("", np.zeros((0, 2), np.int64)),
    ],
)
def test_tables_of_numbers(tmp_path, text, expected):
    path = tmp_path / "table.csv"
    path.write_text(text)
    found = read_array("weights", path)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def test_what_is_no_number_is_refused(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("i,j\n0,x\n")
    with pytest.raises(InputError, match="must_links"):
        read_array("must_links", path)


@pytest.mark.parametrize("text", ["0 5\n", "0;5\n", "0\t5\n", "0,5,\n1,2\n", ",1\n2,3\n", "0,x\n1,2\n"])
def test_a_first_line_with_numbers_is_no_header(tmp_path, text):
    path = tmp_path / "links.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=r"must_links: .* its first line, .* is neither a header nor numbers with"):
        read_array("must_links", path)


def test_a_zarr_array_that_is_none_is_refused_by_the_name_of_the_option(tmp_path):
    with pytest.raises(InputError, match=r"^must_links: .*nothing.* does not exist; give an \.npy file, a \.csv"):
        read_array("must_links", tmp_path / "nothing")
    zarr.create_group(tmp_path / "group").create_array("labels", data=np.zeros(3, int))
    with pytest.raises(InputError, match=r"^labels: .*is a group with arrays .*labels.*; give an \.npy file, a \.csv"):
        read_array("labels", tmp_path / "group")


def test_rows_of_unequal_length_are_refused():
    with pytest.raises(InputError, match="must_links: got a list that is no array of numbers"):
        read_array("must_links", [[1, 2], [3]])


@pytest.mark.parametrize("read", [read_array, lambda name, given: checked_side_inputs({name: given}, 3)])
def test_masked_labels_are_not_taken_for_known_ones(read):
    labels = np.ma.masked_array([0, 1, 2], [False, True, False])
    with pytest.raises(InputError, match=r"labels: the array has 1 masked entries; .* array\.filled\(-1\)"):
        read("labels", labels)
    np.testing.assert_array_equal(read_array("labels", labels.filled(-1)), [0, -1, 2])
    assert type(read_array("labels", np.ma.masked_array([0, 1, 2]))) is np.ndarray


def test_labels_beyond_32_bits_do_not_become_others():
    with pytest.raises(InputError, match="labels: got 4294967297; number the known clusters 0, 1, "):
        checked_side_inputs({"labels": np.array([0, 1, 2**32 + 1])}, 3)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_an_absent_chunk_is_not_read_as_fill_values(tmp_path, zarr_format):
    path = tmp_path / "labels.zarr"
    labels = zarr.create_array(path, shape=(6,), chunks=(2,), dtype="i8", fill_value=0, zarr_format=zarr_format)
    labels[:4] = [1, 2, 1, 2]  # a writer that was killed before the last chunk
    key = {2: "2", 3: "c/2"}[zarr_format]
    for given in (path, labels):
        with pytest.raises(
            StorageError, match=rf"^labels: chunk {key} of .*labels\.zarr is missing, and would read as"
        ):
            read_array("labels", given)
    np.testing.assert_array_equal(read_array("labels", labels[...]), [1, 2, 1, 2, 0, 0])
    labels[4:] = 3
    for given in (path, labels):
        np.testing.assert_array_equal(read_array("labels", given), [1, 2, 1, 2, 3, 3])


@pytest.mark.parametrize(
    ("name", "shape", "chunks", "shards", "where"),
    [
        ("labels", (10,), (2,), (4,), "rows 2:4"),
        ("must_links", (10, 2), (2, 2), (4, 2), "rows 2:4 and columns 0:2"),
        ("cannot_links", (10, 2), (2, 1), (4, 2), "rows 2:4 and columns 0:1"),
    ],
)
def test_a_chunk_that_is_absent_from_its_shard_is_not_read_as_fill_values(tmp_path, name, shape, chunks, shards, where):
    array = zarr.create_array(tmp_path / "a.zarr", shape=shape, chunks=chunks, shards=shards, dtype="i8")
    array[...] = 1
    np.testing.assert_array_equal(read_array(name, array), np.ones(shape))
    array[2:4] = 0  # which the writer leaves out of the shard
    for given in (tmp_path / "a.zarr", array):
        with pytest.raises(
            StorageError, match=rf"^{name}: the chunk of {where} of .* from the shard c/0.*, give an array in memory"
        ):
            read_array(name, given)


def test_labels_in_shards_that_are_encoded_once_more_are_refused(tmp_path):
    codecs = [zarr.codecs.ShardingCodec(chunk_shape=(10,)), zarr.codecs.GzipCodec()]
    with pytest.warns(UserWarning, match="disables partial reads"):
        array = zarr.create(store=str(tmp_path / "a.zarr"), shape=(60,), chunks=(20,), dtype="i8", codecs=codecs)
    with (
        pytest.warns(UserWarning, match="disables partial reads"),
        pytest.raises(InputError, match=r"^labels: absent chunks .* a further codec .*; give an array in memory"),
    ):
        read_array("labels", array)


def test_an_array_in_a_group_names_its_absent_chunk(tmp_path):
    group = zarr.create_group(tmp_path / "group.zarr")
    links = group.create_array("links", shape=(4, 2), chunks=(2, 2), dtype="i8")
    links[:2] = 1
    with pytest.raises(StorageError, match=r"^must_links: chunk c/1/0 of .*group\.zarr/links is missing"):
        read_array("must_links", links)


def test_a_torn_chunk_is_refused_by_the_name_of_the_option(tmp_path):
    path = tmp_path / "labels.zarr"
    zarr.create_array(path, data=np.arange(1, 500), chunks=(500,))
    chunk = path / "c" / "0"
    chunk.write_bytes(chunk.read_bytes()[:20])
    with pytest.raises(StorageError, match=r"^labels: .*labels\.zarr could not be read \(.*\); a chunk of it is torn"):
        read_array("labels", path)
