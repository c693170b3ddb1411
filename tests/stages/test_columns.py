"""Names of columns, which a run keeps, and which new rows must have in the same order."""

import pickle
import re

import dask.dataframe
import numpy as np
import pandas as pd
import pytest
import xarray
from small_fits import BRIEF

import bigsmic
from bigsmic.errors import InputError
from bigsmic.stages.columns import refuse_other_names

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")  # of who writes

NAMES = ["height", "width", "depth"]


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame(rng.normal(size=(300, 3)) + 9 * np.eye(3)[np.arange(300) % 3] * [1, 2, 3], columns=NAMES)


@pytest.fixture(scope="module")
def result(frame, tmp_path_factory):
    return bigsmic.fit(frame, 3, out=tmp_path_factory.mktemp("runs") / "run", **BRIEF)


OTHERS = ["width", "height", "depth"]
IN_ORDER = "predict: column 0 of X is 'width', but 'height' in the fit; give them in the order of the fit"


@pytest.mark.parametrize("method", ["predict", "predict_proba", "novelty"])
def test_rows_with_the_columns_in_another_order_are_refused(frame, result, method):
    predict = getattr(result, method)
    with pytest.raises(InputError, match=IN_ORDER.replace("predict", method.removesuffix("_proba"))):
        predict(frame[OTHERS])
    with pytest.raises(InputError, match="column 2 of X is 'age', but 'depth' in the fit; give the columns of the fit"):
        predict(frame.rename(columns={"depth": "age"}))
    assert np.array_equal(predict(frame), predict(frame.to_numpy()))


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (
            OTHERS,
            "them in the order of the fit, X[names], or component='height,width,depth' of a table",
        ),
        (["height", "width"], "X has no column 'depth', which the fit has; give the columns of the fit, or an array"),
        (
            [*NAMES, "age"],
            "X has a column 'age', which the fit has not; give those of the fit, X[names], or component=",
        ),
    ],
)
def test_columns_that_are_missing_or_too_many_are_named(names, message):
    with pytest.raises(InputError, match=re.escape(message)):
        refuse_other_names(NAMES, names, "update")
    wide = [f"c{i}" for i in range(11)]
    with pytest.raises(InputError, match=r"give them in the order of the fit, X\[names\]\Z"):
        refuse_other_names(wide, wide[::-1], "update")


def test_rows_to_be_scaled_have_the_columns_of_the_fit(frame, result):
    assert np.array_equal(result.scaled(frame), result.scaled(frame.to_numpy().tolist()))
    np.testing.assert_allclose(result.scaled(frame).mean(axis=0), 0, atol=1e-5)
    with pytest.raises(InputError, match=r"scaled: X has 2 columns, but the fit was made with 3; give \(m, 3\)"):
        result.scaled(frame.to_numpy()[:, :2])
    with pytest.raises(InputError, match=r"expected a 2-dimensional array .* got shape \(3,\)"):
        result.scaled(frame.to_numpy()[0])
    with pytest.raises(InputError, match="dtype object is not real"):
        result.scaled(frame.to_numpy().astype(object))
    with pytest.raises(InputError, match="scaled: column 0 of X is 'width', but 'height' in the fit"):
        result.scaled(frame[OTHERS])


def test_those_of_lazy_rows_are_refused_before_anything_is_computed(frame, result, tmp_path):
    rows = dask.dataframe.from_pandas(frame, npartitions=2)
    with pytest.raises(InputError, match=IN_ORDER):
        result.predict(rows[OTHERS])
    with pytest.raises(InputError, match=IN_ORDER):
        result.predict(rows[OTHERS], out=tmp_path / "labels")
    assert np.array_equal(result.predict(rows[NAMES]).compute(), result.predict(frame))


def test_archives_with_the_columns_in_another_order_are_refused(frame, result, tmp_path):
    def archive(names, n):
        rows = xarray.DataArray(frame[names][:n].to_numpy(), dims=("row", "what"), coords={"what": names}, name="X")
        rows.to_dataset().to_zarr(tmp_path / f"{names[0]} {n}")
        return tmp_path / f"{names[0]} {n}"

    with pytest.raises(InputError, match=IN_ORDER):
        result.predict(archive(OTHERS, 300), component="X")
    fitted = bigsmic.fit(archive(NAMES, 200), 3, component="X", out=tmp_path / "run", **BRIEF)
    with pytest.raises(InputError, match=IN_ORDER.replace("predict", "update")):
        fitted.update(tmp_path / "width 300", component="X")
    fitted.update(archive(NAMES, 300), component="X")


def test_names_stay_with_results_that_are_pickled_saved_or_cut(frame, result, tmp_path):
    cut = bigsmic.fit(frame, [2, 4], **BRIEF).cut(3)
    for kept in (pickle.loads(pickle.dumps(cut)), cut.save(tmp_path / "saved"), cut):
        with pytest.raises(InputError, match=IN_ORDER):
            kept.predict(frame[OTHERS])


def test_a_fit_without_names_takes_any(frame):
    fitted = bigsmic.fit(frame.to_numpy(), 3, **BRIEF)
    assert np.array_equal(fitted.predict(frame[OTHERS]), fitted.predict(frame[OTHERS].to_numpy()))
