"""An archive that changes while it is clustered: every stage of every method that reads it finds out."""

from dataclasses import replace

import numpy as np
import pytest
import zarr
from scipy.sparse import csr_array
from sklearn.neighbors import kneighbors_graph

import bigsmic
from bigsmic.errors import RunMismatchError
from bigsmic.numerics.selection import reservoir
from bigsmic.runtime.block_sizes import BlockSizes

METHODS = {
    "smic": {"t": (3,), "n_centers": 40},
    "3smic": {"must_links": [[0, 1]], "t": (3,), "n_centers": 40},
    "mic": {"t": (3,), "n_centers": 40},
    "mwca": {},
    "mwca on the graph": {"kernel": "graph"},
    "mspc": {},
    "rim": {},
    "rim by minibatches": {"batch_size": 100},
    "kernel_rim": {"n_components": 40},
    "kernel_rim by Fourier": {"n_components": 40, "approximation": "fourier"},
}


class Change:
    """A progress callback that runs `change` once: when the last row has been scanned, or when a stage begins."""

    def __init__(self, change, stage=None):
        self.change, self.stage, self.done = change, stage, False

    def __call__(self, stage, done, total):
        wanted = stage == self.stage if self.stage else stage == "scan" and done == total
        if wanted and not self.done:
            self.done = True
            self.change()


@pytest.fixture
def archive(tmp_path, blobs):
    """Blobs in an archive."""
    X = blobs[0]
    array = zarr.create_array(tmp_path / "X.zarr", shape=X.shape, chunks=(100, 5), dtype=X.dtype)
    array[:] = X
    return array


def alter(archive):
    """Add to a row of the second block of input."""
    archive[300] = archive[300] + 1


@pytest.mark.parametrize("name", METHODS)
def test_every_method_notices_a_change_after_the_scan(tmp_path, archive, many_blocks, name):
    change = Change(lambda: alter(archive))
    options = {"method": name.split()[0], "progress": change, "n_threads": 1, "out": tmp_path / "run"}
    with pytest.raises(RunMismatchError, match=r"rows 256:512 are not those with which .* was started"):
        bigsmic.fit(tmp_path / "X.zarr", 3, **options, **METHODS[name])
    assert change.done


def test_a_change_before_the_output_is_noticed(tmp_path, archive, many_blocks):
    change = Change(lambda: alter(archive), "output")
    with pytest.raises(RunMismatchError, match="rows 256:512 are not those"):
        bigsmic.fit(tmp_path / "X.zarr", 2, method="mspc", progress=change, n_threads=1)
    assert change.done


@pytest.mark.parametrize("kind", ["kernel", "metric"])
def test_a_sparse_graph_is_not_changed_under_the_fit(blobs, kind):
    distances = csr_array(kneighbors_graph(blobs[0], 10, mode="distance"))
    matrix = distances + distances.T if kind == "kernel" else distances
    matrix.sum_duplicates()  # others are copied

    def alter_one():
        matrix.data[0] += 0.5

    change = Change(alter_one, "graph" if kind == "kernel" else "lists")
    with pytest.raises(RunMismatchError, match="the matrix is not the one that"):
        bigsmic.fit(matrix, 3, n_threads=1, progress=change, **{kind: "precomputed"})
    assert change.done


def test_tiles_of_the_dense_kernel_may_straddle_blocks_of_input(archive):
    sizes = BlockSizes(tile_bytes=300 * 4 * archive.shape[1])
    wanted = bigsmic.fit(archive, 3, method="mwca", n_threads=1, block_sizes=sizes)
    sizes = replace(sizes, source_bytes=1)
    found = bigsmic.fit(archive, 3, method="mwca", n_threads=1, block_sizes=sizes)
    assert np.array_equal(found.labels, wanted.labels)


def test_a_fit_up_to_some_row_is_the_same_fit_when_the_archive_has_grown(tmp_path):
    rows = np.random.default_rng(0).standard_normal((300, 3)).astype("f4")
    array = zarr.create_array(tmp_path / "X", data=rows, chunks=(100, 3))
    first = bigsmic.fit(tmp_path / "X", 2, rows=slice(0, 300), out=tmp_path / "run", **METHODS["smic"])
    array.append(rows)
    again = bigsmic.fit(tmp_path / "X", 2, rows=slice(0, 300), out=tmp_path / "run", **METHODS["smic"])
    np.testing.assert_array_equal(again.labels, first.labels)


def test_any_rows_are_fitted(tmp_path):
    rows = np.random.default_rng(0).standard_normal((1000, 3)).astype("f4")
    zarr.create_array(tmp_path / "X", data=rows, chunks=(100, 3))
    drawn = reservoir(1000, 300, seed=0)
    result = bigsmic.fit(tmp_path / "X", 2, rows=drawn, **METHODS["smic"])
    assert len(result.rows) == 300
    np.testing.assert_array_equal(result.labels, bigsmic.fit(rows[result.rows], 2, **METHODS["smic"]).labels)
    assert len(result.archive_labels()) == 1000
    later = set(reservoir(1100, 300, seed=0).numbers(0, 300).tolist())
    assert len(later & set(result.rows.tolist())) > 250
