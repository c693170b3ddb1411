import dask.dataframe
import numpy as np
import pandas as pd
import pytest
import xarray
import zarr

from bigsmic.store import open_source, select_rows

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")  # of who writes

NAMES = ["height", "<b>width</b>", "depth"]
X = np.arange(12.0).reshape(4, 3)


def column_names(*place):
    return list(open_source(*place).column_names)


def test_of_a_frame():
    assert column_names(pd.DataFrame(X, columns=NAMES)) == NAMES
    assert column_names(dask.dataframe.from_pandas(pd.DataFrame(X, columns=NAMES), npartitions=2)) == NAMES


@pytest.fixture
def labelled():
    return xarray.DataArray(X, dims=("row", "measure"), coords={"measure": NAMES}, name="X")


def test_of_a_data_array(labelled):
    assert column_names(labelled) == NAMES
    assert column_names(labelled.drop_vars("measure")) == []
    assert column_names(labelled.assign_coords(measure=[0.1, 0.2, 0.3])) == []  # places, and not names


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_of_a_group_that_xarray_wrote(labelled, tmp_path, zarr_format):
    labelled.to_dataset().to_zarr(tmp_path / "rows.zarr", zarr_format=zarr_format)
    assert column_names(tmp_path / "rows.zarr", "X") == NAMES
    assert column_names(zarr.open_group(tmp_path / "rows.zarr", mode="r")["X"]) == NAMES


def test_of_a_group_that_anndata_wrote(tmp_path):
    anndata = pytest.importorskip("anndata", reason="needs anndata: pip install '.[anndata]'")
    cells = anndata.AnnData(X, var=pd.DataFrame(index=["gene a", "gene b", "gene c"]))
    cells.write_zarr(tmp_path / "cells.zarr")
    assert column_names(tmp_path / "cells.zarr", "X") == ["gene a", "gene b", "gene c"]


@pytest.mark.parametrize(("is_missing", "names"), [(False, ["gene a", "gene b", "gene c"]), (True, [])])
def test_of_a_group_that_anndata_wrote_with_a_mask(tmp_path, is_missing, names):
    """As with pandas 3, whose texts may be missing."""
    group = zarr.create_group(tmp_path / "cells.zarr")
    group.create_array("X", data=X)
    var = group.create_group("var", attributes={"_index": "_index"})
    index = var.create_group("_index", attributes={"encoding-type": "nullable-string-array"})
    index.create_array("values", data=np.array(["gene a", "gene b", "gene c"]))
    index.create_array("mask", data=np.array([False, False, is_missing]))
    assert column_names(tmp_path / "cells.zarr", "X") == names


def test_where_there_are_none(tmp_path):
    zarr.create_array(str(tmp_path / "rows.zarr"), data=X)
    np.save(tmp_path / "rows.npy", X)
    assert column_names(tmp_path / "rows.zarr") == []
    assert column_names(tmp_path / "rows.npy") == []
    assert column_names(X) == []


def test_damaged_names_are_none(labelled, tmp_path):
    labelled.to_dataset().drop_vars("measure").to_zarr(tmp_path / "rows.zarr", zarr_format=3)
    group = zarr.open_group(tmp_path / "rows.zarr", mode="a")
    group.create_array("measure", data=np.arange(7))
    assert column_names(tmp_path / "rows.zarr", "X") == []
    (tmp_path / "rows.zarr" / "measure" / "zarr.json").write_text("{")
    assert column_names(tmp_path / "rows.zarr", "X") == []


def test_rows_that_are_chosen_have_the_names_of_all():
    source = select_rows(open_source(pd.DataFrame(X, columns=NAMES)), slice(1, 3))
    assert list(source.column_names) == NAMES


def test_numbers_over_the_columns_of_a_frame_are_no_names():
    assert column_names(pd.DataFrame(X)) == []
    assert column_names(pd.DataFrame(X, columns=["a", "b", 3])) == []
