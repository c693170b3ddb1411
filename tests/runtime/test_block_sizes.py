"""Sizes of blocks: given by the caller, kept by the run, and read from it by everything that comes later."""

import json
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from small_fits import FAST, SMALL, cut_small

import bigsmic
from bigsmic.errors import InputError, RunError, RunMismatchError
from bigsmic.runtime import block_sizes
from bigsmic.runtime.block_sizes import BlockSizes
from bigsmic.store import Run


@pytest.fixture(scope="module")
def small(blobs, tmp_path_factory):
    """A fit that was given small blocks."""
    return bigsmic.fit(blobs[0], 4, out=tmp_path_factory.mktemp("small") / "run", block_sizes=SMALL, **FAST)


def test_the_sizes_that_are_given_cut_the_rows(small):
    context = small._context
    assert_array_equal(context.source_bounds, [0, 256, 512, 700])
    assert len(context.blocks) > 2
    assert small._run.identity["block_sizes"] == {"source_bytes": 1, "group_rows": 300, "tile_bytes": 1}


def test_a_default_in_their_place_is_the_same(small, blobs, monkeypatch):
    cut_small(monkeypatch)
    found = bigsmic.fit(blobs[0], 4, out=small.location, **FAST)
    assert_array_equal(found.labels, small.labels)
    assert bigsmic.fit(blobs[0], 4, **FAST)._run.identity == small._run.identity


def test_a_run_by_the_defaults_names_no_sizes(blobs, tmp_path):
    result = bigsmic.fit(blobs[0], 4, out=tmp_path / "run", block_sizes=BlockSizes(), **FAST)
    assert "block_sizes" not in result._run.identity
    assert_array_equal(bigsmic.fit(blobs[0], 4, out=tmp_path / "run", **FAST).labels, result.labels)


def test_cuts_and_predictions_take_the_sizes_of_the_run(blobs, tmp_path):
    options = {"out": tmp_path / "run", "valleys": False, **FAST}
    result = bigsmic.fit(blobs[0], range(2, 7), block_sizes=SMALL, **options)
    cut = bigsmic.Result.open(tmp_path / "run").cut(3)
    kept = cut.save(tmp_path / "cut")
    assert_array_equal(cut._context.source_bounds, result._context.source_bounds)
    assert_array_equal(kept._context.source_bounds, result._context.source_bounds)
    assert_array_equal(kept.predict_proba(blobs[0][:50]), cut.predict_proba(blobs[0][:50]))
    assert len(cut.labels) == 700


def test_a_run_goes_on_with_its_own_sizes_alone(small, blobs, tmp_path):
    with pytest.raises(RunMismatchError, match=r"block_sizes\.group_rows: stored 300, asked None"):
        bigsmic.fit(blobs[0], 4, out=small.location, **FAST)
    with pytest.raises(RunMismatchError, match=r"block_sizes\.group_rows: stored 300, asked 250\ngive another"):
        bigsmic.fit(blobs[0], 4, out=small.location, block_sizes=replace(SMALL, group_rows=250), **FAST)
    bigsmic.fit(blobs[0], 4, out=tmp_path / "run", **FAST)
    with pytest.raises(RunMismatchError, match=r"block_sizes\.source_bytes: stored 8388608, asked 1\n"):
        bigsmic.fit(blobs[0], 4, out=tmp_path / "run", block_sizes=SMALL, **FAST)


@pytest.mark.parametrize(
    "stored", [{"rows": 300}, {"group_rows": 0}, {"group_rows": 1.5}, {"source_bytes": None}, [300], None, "small"]
)
def test_a_run_whose_sizes_are_none_is_refused(small, tmp_path, stored):
    small.save(tmp_path / "run")
    with closing(Run(tmp_path / "run")) as run:
        run.update({"identity": run.identity | {"block_sizes": stored}})
    with pytest.raises(RunError, match=r"run/zarr.json has no settings that this version of bigsmic .*upgrade"):
        bigsmic.Result.open(tmp_path / "run")


def test_a_plan_is_of_the_blocks_that_are_asked_for(blobs):
    plans = [bigsmic.plan(blobs[0], 4, block_sizes=sizes, **FAST) for sizes in (None, SMALL)]
    assert [plan.stages["scan"].tasks for plan in plans] == [1, 3]
    assert plans[0].stages["neighbors"].tasks < plans[1].stages["neighbors"].tasks


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"source_bytes": 0}, "block_sizes: source_bytes: got 0; use at least 1"),
        ({"tile_bytes": 1.5}, r"block_sizes: tile_bytes: got 1.5; use an integer"),
        ({"group_rows": True}, "block_sizes: group_rows: got True; use an integer"),
        ({"cell_rows": None}, "block_sizes: cell_rows: got None; use an integer"),
    ],
)
def test_what_is_no_size_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        BlockSizes(**options)


def test_what_are_no_sizes_are_refused(blobs):
    with pytest.raises(InputError, match=r"block_sizes: got \{'group_rows': 300\}; give a .*BlockSizes"):
        bigsmic.fit(blobs[0], 4, block_sizes={"group_rows": 300})


def test_sizes_may_be_integers_of_numpy():
    assert json.dumps(BlockSizes(group_rows=np.int64(300)).identity(1000, 2)) == '{"block_sizes": {"group_rows": 300}}'


def test_blocks_of_rows_of_few_columns_have_few_rows():
    """Routing needs some 2 kB for a row of two columns, so that a million of them in one block would need 1.8 GiB."""
    assert np.diff(block_sizes.DEFAULT.source_bounds(10**6, 2)).max() == 65_536
    plan = bigsmic.plan(np.zeros((300, 2), np.float32), n_rows=10**6, memory_limit="512MiB")
    assert max(stage.peak_bytes for stage in plan.stages.values()) <= 512 << 20


@pytest.mark.parametrize(
    ("n", "d", "is_named"), [(10**6, 2, True), (65_537, 31, True), (65_536, 2, False), (10**6, 32, False)]
)
def test_the_limit_of_rows_is_named_where_it_counts(n, d, is_named):
    """So that runs made before there was one are cut as they were, and those that it leaves alone are resumed."""
    sizes = BlockSizes()
    identity = sizes.identity(n, d)
    assert identity == ({"block_sizes": {"source_rows": 65_536}} if is_named else {})
    found, earlier = BlockSizes.of_run(identity), BlockSizes.of_run({})
    np.testing.assert_array_equal(found.source_bounds(n, d), sizes.source_bounds(n, d))
    assert (len(earlier.source_bounds(n, d)) < len(sizes.source_bounds(n, d))) == is_named


def test_a_run_without_the_limit_is_not_resumed_with_it(tmp_path):
    X = np.random.default_rng(0).normal(size=(70_000, 2)).astype(np.float32)
    options = {"method": "rim", "n_epochs": 1, "out": tmp_path / "run"}
    bigsmic.fit(X, 2, block_sizes=BlockSizes(source_rows=None), **options)
    with pytest.raises(RunMismatchError, match=r"block_sizes\.source_rows: stored None, asked 65536"):
        bigsmic.fit(X, 2, **options)


@pytest.mark.parametrize(("n", "d"), [(1, 1), (255, 3), (70_000, 10), (10**6, 10**4)])
def test_bounds_are_of_all_rows(n, d):
    sizes = block_sizes.DEFAULT
    for bounds in (sizes.source_bounds(n, d), sizes.graph_bounds(n), sizes.tile_bounds(n, d)):
        assert (bounds[0], bounds[-1]) == (0, n)
        assert (np.diff(bounds) > 0).all()
    assert np.diff(sizes.tile_bounds(n, d)).max() <= 4096


def test_blocks_of_a_large_graph_are_at_most_1024():
    bounds = block_sizes.DEFAULT.graph_bounds(10**9 + 1)
    assert len(bounds) - 1 <= 1024
    assert bounds[-1] == 10**9 + 1
