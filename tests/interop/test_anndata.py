"""Cells of an AnnData: rows or graphs of it, in memory, backed and stored, and where the results go."""

import json
import pickle
import shutil
import sys
import warnings

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import zarr
from sklearn.neighbors import kneighbors_graph
from small_fits import BRIEF

import bigsmic
from bigsmic.errors import BigsmicWarning, InputError, RunError
from bigsmic.interop.anndata import annotate, cluster


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    return (rng.standard_normal((300, 4)) + 8 * np.eye(3, 4)[np.arange(300) % 3]).astype("f4")


@pytest.fixture
def cells(rows):
    """Three hundred cells: counts, their components, and the neighbours as scanpy stores them."""
    distances = kneighbors_graph(rows, 14, mode="distance")
    neighbours = kneighbors_graph(rows, 14)
    found = anndata.AnnData(
        scipy.sparse.csr_matrix(np.maximum(rows, 0)),
        obsm={"X_pca": rows, "frame": pd.DataFrame(rows, [str(i) for i in range(300)], list("abcd"))},
        obsp={"distances": distances, "connectivities": neighbours.maximum(neighbours.T)},
    )
    found.obs["truth"] = pd.Categorical((np.arange(300) % 3).astype(str))
    return found


def agrees(labels, cells):
    """Whether labels part the cells as the truth does."""
    pairs = pd.crosstab(np.asarray(labels), np.asarray(cells.obs["truth"]))
    return pairs.shape == (3, 3) and (pairs > 0).sum().sum() == 3


def test_results_are_where_scanpy_looks_for_them(cells, tmp_path):
    result = cluster(cells, 3, out=tmp_path / "run.zarr", **BRIEF)
    assert cells.obs["bigsmic"].cat.categories.tolist() == ["0", "1", "2"]
    assert np.array_equal(cells.obs["bigsmic"].cat.codes, result.labels)
    assert np.array_equal(cells.obs["bigsmic_agreement"], result.agreement)
    assert np.array_equal(cells.obsm["bigsmic_posterior"], np.asarray(result.posterior))
    assert agrees(result.labels, cells)
    facts = cells.uns["bigsmic"]
    assert facts["use_rep"] == "X_pca"
    assert (facts["n_clusters"], facts["method"], facts["run"]) == (3, "smic", str(tmp_path / "run.zarr"))
    assert json.loads(facts["settings"])["t"] == [3, 5]
    assert facts["valleys"] == result.valleys.sentence


def test_the_number_of_clusters_is_found(cells):
    assert cluster(cells, **BRIEF).n_clusters == 3
    assert "run" not in cells.uns["bigsmic"]


def written(cells, path):
    """The path of a store that cells are written to, by what it ends in."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the version of Zarr that anndata writes
        (cells.write_h5ad if path.suffix == ".h5ad" else cells.write_zarr)(path)
    return path


@pytest.mark.parametrize("kind", ["h5ad", "zarr"])
def test_results_are_stored_and_read_again(cells, tmp_path, kind):
    cluster(cells, 3, noise=True, **BRIEF)
    read = anndata.read_h5ad if kind == "h5ad" else anndata.read_zarr
    found = read(written(cells, tmp_path / f"cells.{kind}"))
    assert found.uns["bigsmic"] == cells.uns["bigsmic"]
    pd.testing.assert_frame_equal(found.obs, cells.obs)


def test_cells_in_no_cluster_have_no_category(cells, rows):
    far = anndata.AnnData(np.concatenate([rows, rows[:2] + 500]))
    result = cluster(far, 3, use_rep="X", noise=True, **BRIEF)
    assert far.obs["bigsmic"].isna().to_numpy().tolist() == (result.labels < 0).tolist()
    assert far.obs["bigsmic"].isna()[-2:].all()
    assert np.array_equal(far.obs["bigsmic_noise"], result.noise)


def test_clusters_have_the_names_that_they_were_given(cells, tmp_path):
    result = cluster(cells, 3, out=tmp_path / "run.zarr", **BRIEF).set_names({0: "B cell", 2: "B cell"})
    assert "bigsmic_name" not in cells.obs
    annotate(cells, result)
    named = cells.obs["bigsmic_name"]
    assert named.isna().tolist() == (result.labels == 1).tolist()
    assert named.cat.categories.tolist() == ["B cell"]
    read = anndata.read_h5ad(written(cells, tmp_path / "cells.h5ad"))
    pd.testing.assert_frame_equal(read.obs, cells.obs)
    annotate(cells, result.set_names({0: None, 2: None}))
    assert "bigsmic_name" not in cells.obs


@pytest.mark.parametrize("rep", ["X_pca", "frame"])
def test_rows_may_be_an_array_or_a_table(cells, rep):
    assert agrees(cluster(cells, 3, use_rep=rep, method="mspc").labels, cells)


@pytest.mark.parametrize("graph", ["distances", "connectivities"])
def test_neighbours_that_scanpy_found_are_used(cells, graph):
    del cells.obsm["X_pca"]
    options = BRIEF if graph == "distances" else {"n_threads": 1}
    assert agrees(cluster(cells, 3, use_graph=graph, key_added="of_graph", **options).labels, cells)
    assert agrees(cells.obs["of_graph"], cells)


def test_a_graph_of_another_name_is_what_the_options_say(cells):
    cells.obsp["shared"] = cells.obsp["connectivities"]
    by_name = cluster(cells, 3, use_graph="connectivities", n_threads=1)
    stated = cluster(cells, 3, use_graph="shared", kernel="precomputed", n_threads=1)
    assert stated.settings.identity() == by_name.settings.identity()
    assert np.array_equal(stated.labels, by_name.labels)
    with pytest.raises(InputError, match=r"'shared' ends in neither .* metric='precomputed' if distances, or kernel="):
        cluster(cells, 3, use_graph="shared")


def test_a_graph_without_a_number_says_what_to_try(cells):
    with pytest.warns(BigsmicWarning, match=r"A graph does not show .* give c=, or annotate\(adata, result.cut\(c\)\)"):
        result = cluster(cells, use_graph="distances", **BRIEF)
    assert "bigsmic" not in cells.obs
    assert set(cells.uns["bigsmic"]) == {"method", "settings", "use_graph"}
    annotate(cells, result.cut(3))
    assert agrees(cells.obs["bigsmic"], cells)


def test_cells_without_valleys_get_no_labels_and_lose_those_of_before(cells):
    cluster(cells, 3, noise=True, **BRIEF)
    cells.obsm["X_pca"] = np.random.default_rng(2).normal(size=(300, 3))
    with pytest.warns(BigsmicWarning, match=r"The data show no valleys: give c\. .* No labels are set"):
        cluster(cells, **BRIEF)
    assert [name for name in [*cells.obs, *cells.obsm] if name.startswith("bigsmic")] == []
    assert cells.uns["bigsmic"]["valleys"].startswith("The data show no valleys")


def test_a_backed_anndata_is_clustered_in_place(cells, rows, tmp_path):
    anndata.AnnData(rows).write_h5ad(tmp_path / "dense.h5ad")
    backed = anndata.read_h5ad(tmp_path / "dense.h5ad", backed="r+")
    labels = cluster(backed, 3, use_rep="X", **BRIEF).labels
    assert backed.isbacked
    backed.write()
    backed.file.close()
    assert np.array_equal(anndata.read_h5ad(tmp_path / "dense.h5ad").obs["bigsmic"].cat.codes, labels)


@pytest.fixture
def stores(cells, tmp_path):
    return {kind: written(cells, tmp_path / f"cells.{kind}") for kind in ("h5ad", "zarr")}


@pytest.mark.parametrize("kind", ["h5ad", "zarr"])
def test_stores_are_read_in_blocks_and_not_written(stores, cells, monkeypatch, many_blocks, kind):
    asked, read = [], h5py.Dataset.__getitem__
    monkeypatch.setattr(
        h5py.Dataset, "__getitem__", lambda data, key, *more: asked.append(key) or read(data, key, *more)
    )
    before = {path: path.stat().st_mtime_ns for path in stores[kind].rglob("*")}
    result = cluster(stores[kind], 3, **BRIEF)
    assert np.array_equal(result.labels, cluster(cells, 3, **BRIEF).labels)
    assert max((key.stop - key.start for key in asked if isinstance(key, slice)), default=0) <= 256
    assert {path: path.stat().st_mtime_ns for path in stores[kind].rglob("*")} == before
    annotate(cells, result, "stored")
    assert agrees(cells.obs["stored"], cells)


@pytest.mark.parametrize("kind", ["h5ad", "zarr"])
def test_graphs_of_stores(stores, cells, kind):
    assert agrees(cluster(stores[kind], 3, use_graph="distances", **BRIEF).labels, cells)
    with pytest.raises(InputError, match=r"use_graph: got 'knn', obsp has \['connectivities', 'distances'\]"):
        cluster(stores[kind], 3, use_graph="knn")


# -- refused


@pytest.mark.parametrize("kind", ["h5ad", "zarr"])
@pytest.mark.parametrize(
    ("rep", "message"),
    [
        ("X", r"component='X' of .* is a sparse matrix, .* such as component='obsm/X_pca'"),
        ("frame", r"component='obsm/frame' of .* is a table; pass its columns as one array"),
        ("X_umap", r"use_rep: got 'X_umap', obsm has \['X_pca', 'frame'\]; scanpy\.pp\.pca\(adata\) makes 'X_pca'"),
        ("distances", r"use_rep: got 'distances', .*; use_graph='distances' takes what obsp has"),
    ],
)
def test_what_stores_have_that_is_no_array(stores, kind, rep, message):
    with pytest.raises(InputError, match=message):
        cluster(stores[kind], 3, use_rep=rep)


def test_places_that_are_no_store(tmp_path):
    (tmp_path / "cells.h5ad").write_text("no HDF5")
    zarr.create_array(tmp_path / "array.zarr", data=np.zeros((9, 2)))
    for name, options, message in (
        ("cells.h5ad", {}, "could not be opened as HDF5"),
        ("none.h5ad", {}, "none.h5ad' does not exist; give the path of an .h5ad file on this machine, or"),
        ("none.zarr", {}, "does not exist; give the path or URL"),
        ("cells.h5ad", {"key_added": "fine"}, r"^key_added: got 'fine' and .* annotate\(adata, result, 'fine'\)"),
        ("array.zarr", {"use_graph": "distances"}, "is an array; give the path or URL of a group"),
    ):
        with pytest.raises(InputError, match=message):
            cluster(tmp_path / name, 3, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"use_rep": "X_umap"}, r"use_rep: got 'X_umap', obsm has \['X_pca', 'frame'\]; scanpy\.pp\.pca"),
        ({"use_rep": "distances"}, r"got 'distances', obsm has .*; use_graph='distances' takes what obsp has"),
        ({"use_rep": "X"}, r"use_rep: 'X' is a sparse matrix, .* use_rep='X_pca'"),
        ({"use_rep": "X", "use_graph": "distances"}, "use_rep: got 'X' together with use_graph='distances'"),
        ({"use_graph": "knn"}, r"use_graph: got 'knn', obsp has .*scanpy\.pp\.neighbors"),
        (
            {"key_added": "truth"},
            "key_added: got 'truth', but 'truth' exists and is not from this function; give another",
        ),
        *(
            ({"key_added": key}, f"key_added: got {key!r}, which files of AnnData cannot have; give a text without '/'")
            for key in (None, 3, "", "my/cells")
        ),
        *(({"key_added": key}, "null character, and none of ., .., _index$") for key in ("a\0b", ".", "..", "_index")),
        ({"use_rep": ["X_pca"]}, r"use_rep: got \['X_pca'\]; give the name of one, such as use_rep='X_pca'"),
        ({"use_graph": {}}, "use_graph: got {}; give the name of one, such as use_graph='distances'"),
        ({"method": "nosuch"}, "nosuch"),
    ],
)
def test_what_cannot_be_clustered_leaves_the_cells_as_they_were(cells, options, message):
    before = cells.copy()
    with pytest.raises(InputError, match=message):
        cluster(cells, 3, **options)
    pd.testing.assert_frame_equal(cells.obs, before.obs)
    assert set(cells.uns) == set(before.uns)


def test_a_component_is_named_as_a_representation(cells, stores):
    for adata in (cells, stores["h5ad"], stores["zarr"]):
        with pytest.raises(InputError, match=r"component: got 'obsm/X_pca'; .* named by use_rep='X_pca'"):
            cluster(adata, 3, component="obsm/X_pca")


def test_backed_sparse_counts_are_refused(stores):
    backed = anndata.read_h5ad(stores["h5ad"], backed="r")
    with pytest.raises(InputError, match="'X' is a sparse matrix"):
        cluster(backed, 3, use_rep="X")
    backed.file.close()


def test_a_view_of_a_backed_anndata_is_refused_with_what_reads_it(cells, tmp_path):
    cells.write_h5ad(tmp_path / "cells.h5ad")
    backed = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    with pytest.raises(InputError, match=r"a view of another AnnData; pass adata\.to_memory\(\)"):
        cluster(backed[:100], 3)
    assert cluster(backed[:100].to_memory(), 3, **BRIEF).n_clusters == 3
    backed.file.close()


def test_cells_that_are_empty_a_view_or_none(cells, rows):
    with pytest.raises(InputError, match="use_rep: 'X' is nothing"):
        cluster(anndata.AnnData(obs=cells.obs), 3, use_rep="X")
    with pytest.raises(InputError, match=r"a view of another AnnData; pass adata\.copy\(\)"):
        cluster(cells[:100], 3)
    with pytest.raises(InputError, match="got ndarray; give an AnnData, or the path of one"):
        cluster(rows, 3)


def test_results_of_other_cells_are_refused(cells, rows):
    result = bigsmic.fit(rows[:200], 3, method="mspc")
    with pytest.raises(InputError, match="got 300 cells, but the fit has 200 rows"):
        annotate(cells, result)


@pytest.mark.parametrize("place", ["obs", "uns", "obsm"])
def test_what_another_tool_has_written_is_left_alone(cells, place):
    name = {"obs": "leiden_noise", "uns": "leiden", "obsm": "leiden_posterior"}[place]
    getattr(cells, place)[name] = (
        np.ones((300, 2)) if place == "obsm" else np.arange(300) if place == "obs" else {"params": {}}
    )
    with pytest.raises(InputError, match=f"key_added: got 'leiden', but '{name}' exists and is not from this function"):
        cluster(cells, 3, key_added="leiden", method="mspc")


def test_columns_that_the_caller_made_of_a_result_are_left_alone(cells, tmp_path):
    """Names of cell types are often set beside the clusters, where a second fit would have replaced them."""
    cluster(cells, 3, method="mspc")
    cells.obs["bigsmic_name"] = cells.obs["bigsmic"].map({"0": "T cell", "1": "B cell", "2": "monocyte"})
    for found in (cells, anndata.read_h5ad(written(cells, tmp_path / "cells.h5ad"))):
        before = found.obs.copy()
        with pytest.raises(InputError, match="but 'bigsmic_name' exists and is not from this function; give another"):
            cluster(found, 2, method="mspc")
        pd.testing.assert_frame_equal(found.obs, before)
    del cells.obs["bigsmic_name"]
    assert cluster(cells, 2, method="mspc").n_clusters == cells.uns["bigsmic"]["n_clusters"] == 2


def test_results_of_versions_that_noted_no_columns_are_replaced(cells):
    cluster(cells, 3, noise=True, **BRIEF)
    assert json.loads(cells.uns["bigsmic"].pop("columns")) == ["bigsmic", "bigsmic_agreement", "bigsmic_noise"]
    cluster(cells, 2, method="mspc")
    assert [name for name in cells.obs if name.startswith("bigsmic")] == ["bigsmic"]


def test_a_result_does_not_get_the_name_of_the_index(cells):
    """AnnData writes no file of such cells."""
    cells.obs.index.name = "bigsmic"
    with pytest.raises(InputError, match="but 'bigsmic' exists and is not from this function"):
        cluster(cells, 3, method="mspc")


def test_a_result_whose_run_has_gone_leaves_the_one_before(cells, tmp_path):
    gone = bigsmic.fit(cells.obsm["X_pca"], 2, method="mspc", out=tmp_path / "run.zarr")
    cluster(cells, 3, method="mspc")
    before = cells.copy()
    shutil.rmtree(tmp_path / "run.zarr")
    with pytest.raises(RunError, match="no longer exists"):
        annotate(cells, gone)
    pd.testing.assert_frame_equal(cells.obs, before.obs)
    assert cells.uns["bigsmic"] == before.uns["bigsmic"]
    assert "bigsmic_posterior" in cells.obsm


def test_cells_in_another_order_are_refused(cells, tmp_path):
    result = cluster(cells, 3, out=tmp_path / "run.zarr", **BRIEF)
    moved = cells[np.r_[0:100, 101, 100, 102:300]].copy()
    with pytest.raises(InputError, match="cell 101 has the row of cell 100 of the fit, so the cells are in another"):
        annotate(moved, result, "again")
    assert "again" not in moved.obs
    moved.obsm["X_pca"] = moved.obsm["X_pca"] + 1  # another representation, of which nothing is known
    del moved.obsm["frame"]
    annotate(moved, result, "again")
    annotate(cells, pickle.loads(pickle.dumps(bigsmic.fit(cells.obsm["X_pca"], 3, **BRIEF))), "again")
    assert np.array_equal(moved.obs["again"], cells.obs["bigsmic"])


def test_cells_of_a_table_with_truth_values_in_another_order_are_refused(cells):
    cells.obsm["mixed"] = pd.DataFrame(cells.obsm["X_pca"], index=cells.obs_names).assign(late=np.arange(300) % 2 > 0)
    result = cluster(cells, 3, use_rep="mixed", **BRIEF)
    annotate(cells, result)
    moved = cells[np.r_[0:100, 101, 100, 102:300]].copy()
    with pytest.raises(InputError, match="cell 101 has the row of cell 100 of the fit, so the cells are in another"):
        annotate(moved, result, "again")


def test_cells_in_another_order_that_share_a_value_are_refused(cells):
    cells.obsm["batch"] = np.c_[cells.obsm["X_pca"], np.ones(300, cells.obsm["X_pca"].dtype)]
    result = cluster(cells, 3, use_rep="batch", **BRIEF)
    with pytest.raises(InputError, match="cell 101 has the row of cell 100 of the fit, so the cells are in another"):
        annotate(cells[np.r_[0:100, 101, 100, 102:300]].copy(), result, "again")


@pytest.mark.parametrize("graph", ["distances", "connectivities"])
def test_cells_of_a_graph_in_another_order_are_refused(cells, tmp_path, graph):
    """Also if all entries are 1, as those of these connectivities."""
    result = cluster(cells, 3, use_graph=graph, out=tmp_path / "run.zarr", **BRIEF)
    moved = cells[np.r_[0:100, 101, 100, 102:300]].copy()
    with pytest.raises(InputError, match="cell 101 has the row of cell 100 of the fit, so the cells are in another"):
        annotate(moved, bigsmic.Result.open(tmp_path / "run.zarr"), "again")
    assert "again" not in moved.obs
    annotate(cells, result, "again")
    cells.obsp[graph] = cells.obsp[graph].astype("f4")  # which has fewer digits
    annotate(cells, result, "again")
    shuffled = moved.obsp[graph]
    moved.obsp[graph] = shuffled[np.random.default_rng(0).permutation(300)]  # another graph, of which nothing is known
    annotate(moved, result, "again")
    moved.obsp["null"], moved.obsp[graph] = shuffled, cells.obsp[graph]  # a shuffled copy beside the graph of the fit
    annotate(moved, result, "again")


def test_results_of_a_graph_that_were_pickled_say_nothing_about_the_order(cells):
    """They have what predictions need."""
    result = pickle.loads(pickle.dumps(cluster(cells, 3, use_graph="distances", **BRIEF)))
    annotate(moved := cells[::-1].copy(), result, "again")
    assert np.array_equal(moved.obs["again"].cat.codes, result.labels)


def test_other_representations_may_have_the_same_rows_elsewhere(cells, rows):
    """Such as shuffled rows that a null hypothesis is tested on, and coordinates on a grid that were mirrored."""
    cells.obsm = {"shuffled": rows[::-1].copy(), "X_pca": rows}
    result = cluster(cells, 3, method="mspc")
    assert np.array_equal(cells.obs["bigsmic"].cat.codes, result.labels)
    annotate(cells, result, "again")
    assert np.array_equal(cells.obs["again"], cells.obs["bigsmic"])
    with pytest.raises(InputError, match="so the cells are in another order"):
        annotate(cells[np.r_[1, 0, 2:300]].copy(), result, "moved")


@pytest.mark.parametrize("order", [1, -1])
def test_the_order_is_compared_block_by_block(rows, tmp_path, monkeypatch, order):
    """What is backed by a file may have more than memory."""
    result = bigsmic.fit(rows, 3, method="mspc")
    anndata.AnnData(rows[::order].copy()).write_h5ad(tmp_path / "cells.h5ad")
    backed = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    read, lengths = h5py.Dataset.__array__, []
    monkeypatch.setattr(
        h5py.Dataset, "__array__", lambda data, *args, **more: lengths.append(len(data)) or read(data, *args, **more)
    )
    monkeypatch.setattr("bigsmic.interop.anndata.BLOCK_BYTES", 64 * rows.itemsize * rows.shape[1])
    if order == 1:
        annotate(backed, result)
        assert np.array_equal(backed.obs["bigsmic"].cat.codes, result.labels)
    else:
        with pytest.raises(InputError, match=r"has the row of cell .*, so the cells are in another order"):
            annotate(backed, result)
    assert lengths == []
    backed.file.close()


@pytest.mark.parametrize("fitted", ["f4", "f8"])
@pytest.mark.parametrize("place", ["X", "layers"])
def test_the_order_is_that_of_numbers_with_more_or_fewer_digits(rows, place, fitted):
    """Digits that one of them lacks say nothing about the order."""
    exact = rows.astype("f8") + 1e-12
    result = bigsmic.fit(exact.astype(fitted), 3, method="mspc")

    def of(numbers):
        return anndata.AnnData(numbers) if place == "X" else anndata.AnnData(0 * numbers, layers={"scaled": numbers})

    kept = exact.astype("f4" if fitted == "f8" else "f8")
    annotate(ordered := of(kept), result)
    assert np.array_equal(ordered.obs["bigsmic"].cat.codes, result.labels)
    with pytest.raises(InputError, match="so the cells are in another order; give them in that of the fit"):
        annotate(of(kept[::-1].copy()), result)


def test_a_part_of_the_cells_is_refused_before_it_is_fitted(cells, monkeypatch):
    monkeypatch.setattr("bigsmic.interop.anndata.fit", None)
    with pytest.raises(InputError, match=r"rows: got slice\(0, 200.* every cell gets a label; .*adata\[rows\]\.copy"):
        cluster(cells, 3, rows=slice(0, 200))


@pytest.mark.parametrize(("package", "name", "graph"), [("h5py", "a.h5ad", None), ("anndata", "a.zarr", "distances")])
def test_without_the_packages_that_read_a_store_the_extra_is_named(tmp_path, monkeypatch, package, name, graph):
    zarr.create_group(tmp_path / "a.zarr").create_group("obsp/distances")
    for module in [module for module in sys.modules if module.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=rf"a\.\w+' is read by {package}, .* pip install 'bigsmic\[anndata\]'$"):
        cluster(tmp_path / name, 3, use_graph=graph)
