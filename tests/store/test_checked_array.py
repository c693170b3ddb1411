"""Arrays at the top of a run are indexed as NumPy does, are lazy, and keep what they are read from."""

import errno
import operator
import os
import pickle
import re
from functools import partial

import dask.array
import numpy as np
import pytest
import zarr
from damage import fit, rows
from small_fits import cut_small

from bigsmic.errors import StorageError
from bigsmic.store import CheckedArray

pytestmark = pytest.mark.filterwarnings("ignore::bigsmic.errors.BigsmicWarning")


@pytest.fixture(scope="module")
def posterior(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        cut_small(patch)
        return fit("mspc", tmp_path_factory.mktemp("run") / "run", rows(n=900)).posterior


@pytest.fixture(scope="module")
def whole(posterior):
    return np.asarray(posterior)


KEYS = [
    5,
    -1,
    np.int64(300),
    slice(None),
    slice(250, 260),
    slice(None, None, -1),
    slice(700, 3, -7),
    slice(0, 0),
    slice(-5, None),
    ...,
    (),
    None,
    (3, 1),
    (slice(255, 257), 2),
    (slice(None), [0, 2]),
    (..., 0),
    (slice(None), None),
    (4, ...),
    [800, 2, 2, -1],
    [],
    np.array([[1, 600], [899, 0]]),
    (np.arange(900), np.arange(900) % 3),
    ([1, 500], slice(1, None)),
    np.arange(900) % 7 == 0,
    (np.arange(900) % 7 == 0, 1),
    np.ones((900, 3), bool),
]


@pytest.mark.parametrize("key", KEYS, ids=lambda key: str(key)[:30].replace("\n", ""))
def test_it_is_indexed_as_numpy_does(posterior, whole, key):
    np.testing.assert_array_equal(posterior[key], whole[key], strict=True)


@pytest.mark.parametrize(("key", "message"), [(900, "row 900"), (-901, "-901"), (np.ones(3, bool), "3 booleans")])
def test_what_is_out_of_range_is_refused(posterior, key, message):
    with pytest.raises(IndexError, match=message):
        posterior[key]


def test_a_file_system_that_gives_no_answer_is_said_with_the_place(posterior, monkeypatch):
    async def failing(*arguments, **options):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(zarr.storage.LocalStore, "get", failing)
    with pytest.raises(StorageError, match=r"posterior: reading rows 0:256 of .*run: .*Input/output error") as caught:
        posterior[3]
    assert caught.value.errno == errno.EIO


def test_it_is_like_an_array(posterior, whole):
    assert isinstance(posterior, CheckedArray)
    for name in ("shape", "dtype", "ndim", "size", "nbytes"):
        assert getattr(posterior, name) == getattr(whole, name)
    assert (len(posterior), posterior.chunks) == (900, (256, 3))
    assert "shape (900, 3), float32" in repr(posterior)
    np.testing.assert_array_equal(np.stack(list(posterior)), whole)
    assert np.asarray(posterior, np.float64).dtype == np.float64
    assert np.log1p(posterior).shape == (900, 3)
    with pytest.raises(ValueError, match="cannot be an array without a copy"):
        np.asarray(posterior, copy=False)


def test_spans_are_put_together(posterior, whole, monkeypatch):
    monkeypatch.setattr("bigsmic.store.checked_arrays.SPAN_BYTES", 1)
    np.testing.assert_array_equal(posterior[3:800], whole[3:800])


def test_dask_takes_it(posterior, whole):
    lazy = dask.array.from_array(posterior, chunks=(400, 3))
    np.testing.assert_array_equal(lazy.compute(scheduler="sync"), whole)
    assert dask.array.from_array(posterior).chunks[1] == (3,)
    assert lazy.name == dask.array.from_array(posterior, chunks=(400, 3)).name


def test_it_travels(posterior, whole):
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(posterior))[250:260], whole[250:260])


@pytest.mark.parametrize(
    ("symbol", "compute"),
    [
        (">", lambda a: a > 0.5),
        (">", partial(operator.lt, 0.5)),
        ("-", lambda a: 1 - a),
        ("*", lambda a: a * np.float32(2)),
        ("==", lambda a: a == 1),
        ("==", lambda a: a != 1),
        ("==", lambda a: a == np.zeros(3)),
        ("@", lambda a: a @ [1, 2, 3]),
        ("abs", abs),
        ("-", lambda a: -a),
    ],
)
def test_what_computes_with_all_entries_is_refused_with_the_remedy(posterior, symbol, compute):
    remedy = re.escape(
        f"{symbol}: not computed on disk; take posterior into memory, 0.0 MiB, by result.posterior[:] or"
    )
    with pytest.raises(TypeError, match=remedy):
        compute(posterior)


@pytest.mark.parametrize("name", ["sum", "mean", "argmax", "T", "astype"])
def test_methods_of_numpy_are_refused_with_the_remedy(posterior, name):
    with pytest.raises(AttributeError, match=rf"^{name}: not computed on disk; .* result\.posterior\[:\] or numpy"):
        getattr(posterior, name)
    with pytest.raises(AttributeError, match="no attribute 'argmux'"):
        _ = posterior.argmux


def test_functions_of_numpy_take_all_entries(posterior, whole):
    np.testing.assert_array_equal(np.argmax(posterior, axis=1), whole.argmax(axis=1))
    np.testing.assert_array_equal(np.sum(posterior), whole.sum())
    np.testing.assert_array_equal(whole - posterior, 0)
    assert posterior in [None, "text", posterior]
    assert posterior not in (None, False, whole.tolist())
